/** Reads what the file carries about its graphs. */

/** Which of several graphs an address is about, counted from 0; the first, where it names none that is there. */
export function placeOf(hash) {
  const place = Number(/(?:^#|&)graph=(\d+)(?:&|$)/.exec(hash)?.[1] ?? 1) - 1;
  return document.querySelectorAll("script.data")[place] ? place : 0;
}

/** @returns {Promise<object>} of one graph, the document that `gradviz.rendering.page_document` describes */
export async function readDocument(place) {
  const packed = document.querySelectorAll("script.data")[place].textContent;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).json();
}
