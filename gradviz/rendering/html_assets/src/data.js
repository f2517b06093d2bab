/** Reads what the file carries about the graph. */

/** @returns {Promise<object>} the document that `gradviz.rendering.page_document` describes */
export async function readDocument() {
  const packed = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).json();
}
