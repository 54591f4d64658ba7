import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { type Destination, destinationOf, shownHost } from './destination.ts'

/** What a user is asked before anything is sent to an identity provider on a client's behalf. */
export interface ConsentQuestion {
  /** Name of the gateway that is to be used. */
  readonly gateway: string
  readonly client: {
    /** As it calls itself; nobody has checked it. */
    readonly name: string | undefined
    /** Its id, where that is the URL of its metadata document; undefined of one that registered itself. */
    readonly document: string | undefined
  }
  /** Where the client gets its answer. */
  readonly redirectUri: string
  readonly scopes: readonly string[]
  /** Hosts of the identity providers that the user will be sent to, in order. */
  readonly providers: readonly string[]
  /** Where the answer is posted to. */
  readonly action: string
  /** Goes back with the answer: proof that it was given on this page. */
  readonly token: string
}

/** Names of the form's fields. */
export const fields = { token: 'token', decision: 'decision' } as const
/** The value of `decision` that allows; every other one denies. */
export const ALLOW = 'allow'

const FOOTER = html`You are asked because programs can register here by themselves. Your answer is remembered in this browser.`

/** Asks whether a client may act for the user. It works without scripts. */
export function consentPage(question: ConsentQuestion): Page {
  const { gateway, client, redirectUri, scopes, providers, action, token } = question
  const destination = destinationOf(redirectUri)
  const name = client.name ?? 'A program'
  return {
    title: `Allow ${name}?`,
    place: gateway,
    footer: FOOTER,
    // Where the form's answer leads, and where that leads, is for identity providers to say: see `Page`.
    formsLead: 'anywhere',
    body: html`
<h1>Allow <bdi>${name}</bdi> to use <bdi>${gateway}</bdi>?</h1>
<p>It would act for you: call tools, read resources, and see what they return.</p>
<table class="facts"><tbody>
<tr><th scope="row">Program</th><td class="wrap"><bdi>${name}</bdi><br><span class="small soft">${known(client)}</span></td></tr>
<tr><th scope="row">Answer goes to</th><td class="wrap">${answered(destination)}</td></tr>
${providers.length === 0 ? '' : html`<tr><th scope="row">You log in at</th><td class="wrap">${providers.map((host, index) => html`${index === 0 ? '' : ', then '}<b>${host}</b>`)}</td></tr>`}
${scopes.length === 0 ? '' : html`<tr><th scope="row">It asks for</th><td class="wrap">${scopeList(scopes)}</td></tr>`}
</tbody></table>
${foreign(client.document, destination)}
<p class="note">Allow this only if you have just asked this program to connect. If a link brought you here, deny.</p>
<form method="post" action="${action}" class="choices">
<input type="hidden" name="${fields.token}" value="${token}">
<button name="${fields.decision}" value="${ALLOW}">Allow</button>
<button name="${fields.decision}" value="deny" class="quiet">Deny</button>
</form>`,
  }
}

const known = ({ document }: ConsentQuestion['client']): Markup =>
  document === undefined
    ? html`It registered itself under this name, which nobody has checked.`
    : html`It is known by its address at <b>${shownHost(document)}</b>.`

function answered(destination: Destination): Markup {
  switch (destination.kind) {
    case 'computer':
      return html`<b>a program on this computer</b><br><span class="small soft">${destination.host}</span>`
    case 'app':
      return html`<b>the app that opens <code>${destination.scheme}</code> links</b><br><span class="small soft">on this device; any app may have claimed them</span>`
    case 'site':
      return html`<b>${destination.host}</b>`
  }
}

/**
 * A client may send its answers elsewhere than to its own site, and any program on a computer can say that it is the one
 * that a document describes; whoever allows it should have seen that.
 */
function foreign(document: string | undefined, destination: Destination): Markup | string {
  if (document === undefined || destination.kind === 'app') return ''
  const home = shownHost(document)
  if (destination.kind === 'computer')
    return html`<p class="note warn">Any program on this computer can call itself the one of <b>${home}</b>.</p>`
  return home === destination.host
    ? ''
    : html`<p class="note warn">The answer goes to <b>${destination.host}</b>, not to <b>${home}</b>.</p>`
}

/** What scopes of OpenID Connect mean; others are names that the gateway's operator has given. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ['openid', 'know who you are'],
  ['profile', 'see your name'],
  ['email', 'see your e-mail address'],
  ['offline_access', 'stay logged in while you are away'],
])

function scopeList(scopes: readonly string[]): Markup {
  const named = scopes.filter((scope) => !MEANINGS.has(scope))
  const code = (scope: string) => html`<code>${scope}</code> `
  return html`<ul class="plain">
${scopes.map((scope) => (MEANINGS.has(scope) ? html`<li>${MEANINGS.get(scope)} <code class="soft">${scope}</code></li>` : ''))}
${named.length === 0 ? '' : html`<li>${named.map(code)}</li>`}
</ul>`
}
