/**
 * The index of the stop to go to: the one after (or before) what is selected, and from the last one again the first.
 *
 * @param {number[]} items of the stops, in the order of the computation
 * @param {number|null} selected
 * @param {1|-1} step
 */
export function nextStop(items, selected, step) {
  const at = selected === null ? -1 : items.indexOf(selected);
  if (at === -1) return step === 1 ? 0 : items.length - 1;
  return (at + step + items.length) % items.length;
}
