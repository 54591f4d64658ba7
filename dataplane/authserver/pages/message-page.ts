import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

const FOOTER = html`An authorization server for MCP clients.`

/** A problem, as the person at the browser sees it. */
export interface Message {
  readonly title: string
  readonly text: string | Markup
  /** The advice for what to do now. */
  readonly advice: string | Markup
  /** The link to continue anyway. */
  readonly onward?: { readonly href: string; readonly text: string }
}

/** Renders a page that says why the flow can't continue here, and what to do. */
export const messagePage = (gateway: string, { title, text, advice, onward }: Message): Page => ({
  title,
  place: gateway,
  footer: FOOTER,
  body: html`
<h1>${title}</h1>
<p>${text}</p>
<p class="note">${advice}</p>
${onward === undefined ? '' : html`<p><a href="${onward.href}">${onward.text}</a></p>`}`,
})
