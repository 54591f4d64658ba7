import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

const FOOTER = html`An authorization server for MCP clients.`

/** What went wrong, for the person in front of the browser; fixed words that repeat nothing of what was sent. */
export interface Message {
  readonly title: string
  readonly text: string
  /** What to do now. */
  readonly advice: string | Markup
}

/** A page that says that it can't go on here, and how it can. */
export const messagePage = (gateway: string, { title, text, advice }: Message): Page => ({
  title,
  place: gateway,
  footer: FOOTER,
  body: html`
<h1>${title}</h1>
<p>${text}</p>
<p class="note">${advice}</p>`,
})
