import { html } from 'hono/html'
import type { Setup } from './client-setup.ts'
import type { Markup } from './page.ts'

/** A section to open for each client; the first one is open. */
export const setupList = (setups: readonly Setup[]): Markup =>
  html`${setups.map(
    ({ client, hint, text }, index) => html`<details${index === 0 ? html` open` : ''}><summary>${client}</summary>
<p class="small soft">${hint}</p>
<pre role="group" tabindex="0" aria-label="${client}">${text}</pre></details>`,
  )}`
