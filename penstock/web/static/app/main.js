// @ts-check
// The frame: top bar, which page is shown, log-in.
import {
  getToken,
  onToken,
  request,
  setToken,
  takeTokenFromAddress,
  whenTokenIsNeeded,
} from "./api.js";
import { Dialog, fieldOf } from "./dialog.js";
import { followLeader, lookForLeader } from "./leader.js";
import { Fragment, html, render, useEffect, useErrorBoundary, useRef, useState } from "./lib.js";
import { useConnection, whenFailing } from "./live.js";
import { Cluster } from "./pages/cluster.js";
import { JobPage } from "./pages/job.js";
import { Overview } from "./pages/overview.js";
import { Submit } from "./pages/submit.js";
import { useRoute } from "./router.js";
import { Toasts, toast } from "./toasts.js";
import { Notice } from "./ui.js";

/** @import { Close } from "../../types.d.ts" */
/** @import { Route } from "./address.js" */

const PAGES = [
  ["Jobs", ""],
  ["Cluster", "cluster"],
  ["Submit", "submit"],
];
/** @type {Record<string, string>} */
const THEMES = { auto: "light", light: "dark", dark: "auto" };
/** @type {Record<string, unknown>} */
const THEME_ICONS = {
  auto: html`
    <circle cx="9" cy="9" r="6.5" />
    <path d="M9 2.5v13a6.5 6.5 0 0 0 0-13" fill="currentColor" />
  `,
  light: html`
    <circle cx="9" cy="9" r="3.5" />
    <path
      d=${
        "M9 1v2M9 15v2M1 9h2M15 9h2" +
        "M3.3 3.3l1.4 1.4M13.3 13.3l1.4 1.4M3.3 14.7l1.4-1.4M13.3 4.7l1.4-1.4"
      }
    />
  `,
  dark: html`<path d="M15 10.5A6.5 6.5 0 1 1 7.5 3a5 5 0 0 0 7.5 7.5" />`,
};

function ThemeButton() {
  const [theme, setTheme] = useState(window.penstockTheme.get());
  const next = THEMES[theme] ?? "light";
  const change = () => {
    window.penstockTheme.set(next);
    setTheme(next);
  };
  return html`<button
    type="button"
    class="plain icon"
    onClick=${change}
    aria-label=${`Theme: ${theme}. Change to ${next}`}
    title=${`Theme: ${theme}`}
  >
    <svg
      width="18"
      height="18"
      viewBox="0 0 18 18"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      ${THEME_ICONS[theme]}
    </svg>
  </button>`;
}

function Connection() {
  const state = useConnection();
  const label = state === "live" ? "Live" : "Connecting…";
  return html`<span
    class="live"
    data-state=${state}
    role="status"
    aria-label=${label}
    title=${label}
  >
    <span>${label}</span>
  </span>`;
}

/** @param {{reason?: string, close: Close}} props */
function Login({ reason, close }) {
  const submit = async (/** @type {HTMLFormElement} */ form) => {
    const before = getToken();
    setToken(fieldOf(form, "token"));
    try {
      await request("GET", "/jobs", { mayAsk: false });
    } catch (error) {
      setToken(before);
      throw error;
    }
    toast("Logged in");
  };
  return html`<${Dialog} title="Log in" confirm="Log in" submit=${submit} close=${close}>
    ${reason && html`<${Notice} tone="info">${reason}<//>`}
    <label class="field">
      Token
      <input name="token" type="password" autocomplete="current-password" required autofocus />
      <span class="hint">
        It was made when the JobManager started, and is in its file below <code>~/.penstock</code>,
        which only its user can read.
      </span>
    </label>
  <//>`;
}

/** @typedef {{reason?: string, resolve: (done: boolean) => void}} Asked */

function Session() {
  const [token, setNow] = useState(getToken());
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  useEffect(() => onToken(setNow), []);
  useEffect(
    () => whenTokenIsNeeded((reason) => new Promise((resolve) => setAsked({ reason, resolve }))),
    [],
  );
  const close = (/** @type {boolean} */ done) => {
    asked?.resolve(done);
    setAsked(null);
  };
  return html`<${Fragment}>
    ${
      token
        ? html`<button
          type="button"
          class="plain"
          onClick=${() => {
            setToken(null);
            toast("Logged out", "info");
          }}
        >
          Log out
        </button>`
        : html`<button type="button" class="plain" onClick=${() => setAsked({ resolve: () => {} })}>
          Log in
        </button>`
    }
    ${asked && html`<${Login} reason=${asked.reason} close=${close} />`}
  <//>`;
}

/** @param {{route: Route}} props */
function Page({ route }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => {
    if (error) reset();
  }, [route.path]);
  if (error) {
    return html`<${Notice} tone="bad" role="alert">
      <strong>This part of the page failed</strong>
      <div class="small mono">${String(error)}</div>
      <button type="button" onClick=${reset}>Try again</button>
    <//>`;
  }
  const [first, second, third] = route.parts;
  if (first === "jobs" && second)
    return html`<${JobPage} key=${second} id=${second} tab=${third} query=${route.query} />`;
  if (first === "cluster") return html`<${Cluster} selected=${second} view=${third} />`;
  if (first === "submit") return html`<${Submit} />`;
  return html`<${Overview} />`;
}

function App() {
  const route = useRoute();
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const section = route.parts[0] === "jobs" ? "" : (route.parts[0] ?? "");
  return html`<${Fragment}>
    <a
      class="skip"
      href="#main"
      onClick=${(/** @type {Event} */ event) => {
        event.preventDefault();
        main.current?.focus();
      }}
    >
      Skip to content
    </a>
    <header class="topbar">
      <div class="topbar-inner">
        <a class="brand" href="#/" aria-label="Penstock, all jobs">
          <img src="web/icon.svg" alt="" />
          <span>Penstock</span>
        </a>
        <nav aria-label="Pages">${PAGES.map(
          ([name, path]) => html`<a
            key=${path}
            href=${`#/${path}`}
            aria-current=${section === path ? "page" : undefined}
          >
            ${name}
          </a>`,
        )}</nav>
        <div class="end"><${Connection} /><${Session} /><${ThemeButton} /></div>
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}><${Page} route=${route} /></main>
    <${Toasts} />
  <//>`;
}

takeTokenFromAddress();
addEventListener("hashchange", takeTokenFromAddress);
whenFailing(lookForLeader);
followLeader();
const root = document.getElementById("app");
root?.replaceChildren();
if (root) render(html`<${App} />`, root);
