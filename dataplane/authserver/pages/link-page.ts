import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

/** The question to a user before they log in at a further provider, for a program that already acts for them. */
export interface LinkQuestion {
  readonly gateway: string
  /** The owner of the account, as the primary provider has reported. */
  readonly account: { readonly name?: string; readonly email?: string }
  /** The name of the provider to link. */
  readonly provider: string
  /** The hosts of the providers that the login visits, in order. */
  readonly hosts: readonly string[]
  /** The URL that the form is posted to. */
  readonly action: string
  readonly ticket: string
  /** The token that the form returns, which proves that the answer was given on this page. */
  readonly token: string
}

/** Names of the form's fields. */
export const fields = { ticket: 'ticket', token: 'token' } as const

const FOOTER = html`You are asked because a program that you use needs this provider. Nothing happens until you go on.`

/** Renders the page that asks a user to log in at one more provider. It works without scripts. */
export function linkPage({ gateway, account, provider, hosts, action, ticket, token }: LinkQuestion): Page {
  return {
    title: `Link ${provider}?`,
    place: gateway,
    footer: FOOTER,
    // Identity providers decide where the form's response redirects, and where that leads: see `Page`.
    formsLead: 'anywhere',
    body: html`
<h1>Link <bdi>${provider}</bdi> with your account at <bdi>${gateway}</bdi>?</h1>
<p>A program that you use here needs what you may do at ${provider}.</p>
<table class="facts"><tbody>
<tr><th scope="row">Account</th><td class="wrap">${named(account)}</td></tr>
<tr><th scope="row">Is linked with</th><td class="wrap"><b>${provider}</b></td></tr>
<tr><th scope="row">You log in at</th><td class="wrap">${hosts.map((host, index) => html`${index === 0 ? '' : ', then '}<b>${host}</b>`)}</td></tr>
</tbody></table>
<p class="note">Go on only if this is your account, and a program of yours has just asked for it. If somebody else has sent you this link, close the page.</p>
<form method="post" action="${action}" class="choices">
<input type="hidden" name="${fields.ticket}" value="${ticket}">
<input type="hidden" name="${fields.token}" value="${token}">
<button>Log in</button>
</form>`,
  }
}

function named({ name, email }: LinkQuestion['account']): Markup {
  if (name === undefined && email === undefined)
    return html`<b>the one that your program uses</b><br><span class="small soft">its provider tells no name</span>`
  return html`<b><bdi>${name ?? email}</bdi></b>${name === undefined || email === undefined ? '' : html`<br><span class="small soft"><bdi>${email}</bdi></span>`}`
}
