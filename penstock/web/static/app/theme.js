// @ts-check
// Sets the theme before anything is drawn, so that a dark page does not flash white.
// A classic script on purpose.
(() => {
  const KEY = "penstock.theme";
  const root = document.documentElement;
  /** @param {string} theme */
  function apply(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  }
  function read() {
    try {
      return localStorage.getItem(KEY) || "auto";
    } catch {
      return "auto";
    }
  }
  apply(read());
  window.penstockTheme = {
    get: read,
    set(theme) {
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        /* private windows: it lasts as long as the page */
      }
      apply(theme);
      window.dispatchEvent(new CustomEvent("penstock-theme"));
    },
  };
})();
