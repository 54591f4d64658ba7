import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

const FOOTER = html`An authorization server for MCP clients.`

/** What went wrong, for the person in front of the browser. */
export interface Message {
  readonly title: string
  readonly text: string | Markup
  /** What to do now. */
  readonly advice: string | Markup
  /** Where it goes on all the same. */
  readonly onward?: { readonly href: string; readonly text: string }
}

/** A page that says that it can't go on here, and how it can. */
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
