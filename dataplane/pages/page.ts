import { hash } from 'node:crypto'
import type { Context } from 'hono'
import { html, raw } from 'hono/html'
import { STYLE } from './style.ts'

/** The result of `html`: text in which every inserted value is escaped. */
export type Markup = ReturnType<typeof html>

export interface Page {
  readonly title: string
  readonly place?: string | undefined
  readonly home?: string
  readonly body: Markup
  readonly footer: Markup
  /**
   * The allowed form targets; default `self`, the page's own origin. Browsers check every redirect behind a form too.
   */
  readonly formsLead?: 'self' | 'anywhere'
}

/** The policy allows only the page and its style sheet, so markup that a published document injects can do nothing. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

const policyFor = ({ formsLead = 'self' }: Page): string =>
  formsLead === 'self' ? `${POLICY}; form-action 'self'` : POLICY

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  // The content depends on the caller, and on the content type that it accepts.
  'cache-control': 'private, no-cache',
  vary: 'Accept, Authorization',
}

/** An arch with a door: a portico. */
const MARK = raw(
  '<svg class="mark" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="M3 8 12 3l9 5v2H3z"/><path d="M5 10v9M10 10v9M14 10v9M19 10v9M3 21h18"/></svg>',
)

/** Answers with a page that works without JavaScript. */
export async function renderPage(c: Context, page: Page, status: 200 | 400 | 401 | 403 | 404 | 429 | 502 | 503 = 200) {
  const { title, place, home = '/', body, footer } = page
  const text = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Portico</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<header>${MARK}<a href="${home}">Portico</a>${place === undefined ? '' : html`<span>${place}</span>`}</header>
<main>${body}</main>
<footer>${footer}</footer>
</body>
</html>`
  return c.body(String(text), status, { ...HEADERS, 'content-security-policy': policyFor(page) })
}
