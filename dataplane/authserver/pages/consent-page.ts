import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { answeredAt, type Destination, findDestination, knownBy, scopeList, shownHost } from './client-facts.ts'

/** The question to the user before anything is sent to an identity provider on a client's behalf. */
export interface ConsentQuestion {
  readonly gateway: string
  readonly client: {
    /** The name that the client reports, unverified. */
    readonly name: string | undefined
    /** The client id, if it is the URL of a metadata document; undefined for a registered client. */
    readonly document: string | undefined
  }
  /** The URI that gets the client's response. */
  readonly redirectUri: string
  /** True if the consent is remembered for a while. */
  readonly isRemembered: boolean
  /** The resource that the client's tokens would be for. */
  readonly resource: string
  readonly scopes: readonly string[]
  /** The hosts of the identity providers that the login visits, in order. */
  readonly providers: readonly string[]
  /** The URL that the form is posted to. */
  readonly action: string
  /** The token that the form returns, which proves that the answer was given on this page. */
  readonly token: string
}

/** Names of the form's fields. */
export const fields = { token: 'token', decision: 'decision' } as const
/** The value of `decision` that allows; every other value denies. */
export const ALLOW = 'allow'

const footer = (isRemembered: boolean) =>
  html`You are asked because programs can register here by themselves. ${isRemembered ? 'Your answer is remembered in this browser.' : 'You are asked each time, since any program on this device could take the answer.'} <a href="sessions">See what is linked to you</a>.`

/** Renders the page that asks whether a client may act for the user. It works without scripts. */
export function consentPage(question: ConsentQuestion): Page {
  const { gateway, client, redirectUri, isRemembered, resource, scopes, providers, action, token } = question
  const destination = findDestination(redirectUri)
  const name = client.name ?? 'A program'
  return {
    title: `Allow ${name}?`,
    place: gateway,
    footer: footer(isRemembered),
    // Identity providers decide where the form's response redirects, and where that leads: see `Page`.
    formsLead: 'anywhere',
    body: html`
<h1>Allow <bdi>${name}</bdi> to use <bdi>${gateway}</bdi>?</h1>
<p>It would act for you: call tools, read resources, and see what they return.</p>
<table class="facts"><tbody>
<tr><th scope="row">Program</th><td class="wrap"><bdi>${name}</bdi><br><span class="small soft">${knownBy(client.document)}</span></td></tr>
<tr><th scope="row">Answer goes to</th><td class="wrap">${answeredAt(destination)}</td></tr>
<tr><th scope="row">To use</th><td class="wrap">${resource}</td></tr>
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

/**
 * Warns of a client whose responses go elsewhere than to its own site. Any program on a computer can claim to be the
 * client that a document describes, so users should see the warning before they allow it.
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
