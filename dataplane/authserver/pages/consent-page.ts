import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { answeredAt, type Destination, destinationOf, knownBy, scopeList, shownHost } from './client-facts.ts'

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
  /** Whether the user is not asked again for a while. */
  readonly isRemembered: boolean
  /** What the client would get tokens for. */
  readonly resource: string
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

const footer = (isRemembered: boolean) =>
  html`You are asked because programs can register here by themselves. ${isRemembered ? 'Your answer is remembered in this browser.' : 'You are asked each time, since any program on this device could take the answer.'} <a href="sessions">See what is linked to you</a>.`

/** Asks whether a client may act for the user. It works without scripts. */
export function consentPage(question: ConsentQuestion): Page {
  const { gateway, client, redirectUri, isRemembered, resource, scopes, providers, action, token } = question
  const destination = destinationOf(redirectUri)
  const name = client.name ?? 'A program'
  return {
    title: `Allow ${name}?`,
    place: gateway,
    footer: footer(isRemembered),
    // Where the form's answer leads, and where that leads, is for identity providers to say: see `Page`.
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
