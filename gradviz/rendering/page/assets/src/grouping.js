/**
 * Things by what a function says of each, in their order.
 *
 * @template T, K
 * @param {Iterable<T>} things
 * @param {(thing: T) => K} groupOf
 * @returns {Map<K, T[]>}
 */
export function grouped(things, groupOf) {
  const found = new Map();
  for (const thing of things) {
    const group = groupOf(thing);
    if (!found.has(group)) found.set(group, []);
    found.get(group).push(thing);
  }
  return found;
}
