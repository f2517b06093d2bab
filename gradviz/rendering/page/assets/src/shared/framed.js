/** Whether the page is a part of another one. */
export const isFramed = window.parent !== window;
