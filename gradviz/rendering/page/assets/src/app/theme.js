/** Light, dark, or as the system is. */

const ORDER = ["auto", "light", "dark"];
let chosen = "auto";
const system = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  const isDark = chosen === "dark" || (chosen === "auto" && system.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

/**
 * @param {string} theme
 * @param {() => void} onChange called after the system's own theme has changed
 */
export function useTheme(theme, onChange) {
  chosen = theme;
  apply();
  system.addEventListener("change", () => {
    apply();
    onChange();
  });
}

/** Goes on to the next, and says which it is. */
export function nextTheme() {
  chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
  apply();
  return chosen === "auto" ? "as the system" : chosen;
}
