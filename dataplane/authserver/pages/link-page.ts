import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

/** What a user is shown before they log in at a provider for a program that has their account already. */
export interface LinkQuestion {
  /** Name of the gateway that is used. */
  readonly gateway: string
  /** Whose account it is, as the provider that knows its users has said. */
  readonly account: { readonly name?: string; readonly email?: string }
  /** Name of the provider that is to be linked. */
  readonly provider: string
  /** Hosts of the providers that the user will be sent to, in order. */
  readonly hosts: readonly string[]
  /** Where the answer is posted to. */
  readonly action: string
  /** The link itself. */
  readonly ticket: string
  /** Goes back with the answer: proof that it was given on this page. */
  readonly token: string
}

/** Names of the form's fields. */
export const fields = { ticket: 'ticket', token: 'token' } as const

const FOOTER = html`You are asked because a program that you use needs this provider. Nothing happens until you go on.`

/** Asks a user to log in at one more provider. It works without scripts. */
export function linkPage({ gateway, account, provider, hosts, action, ticket, token }: LinkQuestion): Page {
  return {
    title: `Link ${provider}?`,
    place: gateway,
    footer: FOOTER,
    // Where the form's answer leads, and where that leads, is for identity providers to say: see `Page`.
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
