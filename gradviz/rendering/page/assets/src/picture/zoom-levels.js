/** Nearer than this words can be read, and outlines be told from one another: as the style says of elements. */
export const NEAR = 0.3;
/** How far out and how near one can zoom. */
export const MIN_SCALE = 0.02;
export const MAX_SCALE = 4;
