/**
 * Things by what a function says of each, in their order.
 *
 * @template T, K
 * @param {Iterable<T>} things
 * @param {(thing: T) => K} groupOf
 * @returns {Map<K, T[]>}
 */
export function groupBy(things, groupOf) {
  /** @type {Map<K, T[]>} */
  const found = new Map();
  for (const thing of things) append(found, groupOf(thing), thing);
  return found;
}

/**
 * Adds a thing to a group, which may be new.
 *
 * @template T, K
 * @param {Map<K, T[]>} groups
 * @param {K} group
 * @param {T} thing
 */
export function append(groups, group, thing) {
  const others = groups.get(group);
  if (others) others.push(thing);
  else groups.set(group, [thing]);
}
