import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { answeredAt, type Destination, findDestination, knownBy, scopeList, shownHost } from './client-facts.ts'

/** The facts of every page with a form. */
export interface FormPage {
  readonly gateway: string
  /** The URL that the form is posted to. */
  readonly action: string
  /** The token that the form returns, which proves that it was sent from this page. */
  readonly token: string
}

/** The question to the user before anything is sent to an identity provider on a client's behalf. */
export interface ConsentQuestion extends FormPage {
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
}

/** Names of the form fields on the page for consent. */
export const consentFields = { token: 'token', decision: 'decision' } as const
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
<input type="hidden" name="${consentFields.token}" value="${token}">
<button name="${consentFields.decision}" value="${ALLOW}">Allow</button>
<button name="${consentFields.decision}" value="deny" class="quiet">Deny</button>
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

/** The question at which provider the user logs in. The token of its form holds the login. */
interface ChoiceQuestion extends FormPage {
  readonly providers: readonly { readonly name: string; readonly host: string }[]
  /** True if the user enters an e-mail address first, and sees the providers only if it matches none. */
  readonly asksForAddress: boolean
  /** True if the address that the user has just entered matches no provider. */
  readonly isUnknown: boolean
}

/** Names of the form fields on the page for a choice. */
export const choiceFields = { token: 'token', email: 'email', provider: 'provider' } as const

const OF_LIST = html`The place that you choose asks who you are. Nothing is sent there before.`
const OF_ADDRESS = html`Your address only finds the place where you log in. It is not kept, and does not log you in.`

/** Renders the page that asks a user where to log in. It works without scripts. */
export function choicePage({ gateway, providers, asksForAddress, isUnknown, action, token }: ChoiceQuestion): Page {
  return {
    title: 'Where do you log in?',
    place: gateway,
    footer: asksForAddress ? OF_ADDRESS : OF_LIST,
    // Identity providers decide where the form's response redirects, and where that leads: see `Page`.
    formsLead: 'anywhere',
    body: html`
<h1>Where do you log in?</h1>
<p>${asksForAddress ? html`<bdi>${gateway}</bdi> has users of several organizations. Your work e-mail address leads you to yours.` : html`<bdi>${gateway}</bdi> has users of several organizations. Choose the one that knows you.`}</p>
${isUnknown ? html`<p class="note" role="status">There is no address, or no organization has it. Choose one.</p>` : ''}
<form method="post" action="${action}">
<input type="hidden" name="${choiceFields.token}" value="${token}">
${asksForAddress ? ADDRESS : html`<ul class="plain">${providers.map(renderChoice)}</ul>`}
</form>`,
  }
}

const ADDRESS = html`<p><label for="email"><b>E-mail address</b></label></p>
<p><input id="email" name="${choiceFields.email}" type="email" autocomplete="email" spellcheck="false" maxlength="320" size="32" autofocus></p>
<div class="choices"><button>Continue</button></div>
<p class="small soft">Leave it empty to choose from a list.</p>`

const renderChoice = ({ name, host }: ChoiceQuestion['providers'][number]): Markup =>
  html`<li class="link"><button name="${choiceFields.provider}" value="${name}">Log in at <bdi>${name}</bdi></button> <span class="small soft">${host}</span></li>`

/** The question to a user before they log in at a further provider, for a program that already acts for them. */
export interface LinkQuestion extends FormPage {
  /** The owner of the account, as the primary provider has reported. */
  readonly account: { readonly name?: string; readonly email?: string }
  /** The name of the provider to link. */
  readonly provider: string
  /** The hosts of the providers that the login visits, in order. */
  readonly hosts: readonly string[]
  readonly ticket: string
}

/** Names of the form fields on the page of a link. */
export const linkFields = { ticket: 'ticket', token: 'token' } as const

const LINK_FOOTER = html`You are asked because a program that you use needs this provider. Nothing happens until you go on.`

/** Renders the page that asks a user to log in at one more provider. It works without scripts. */
export function linkPage({ gateway, account, provider, hosts, action, ticket, token }: LinkQuestion): Page {
  return {
    title: `Link ${provider}?`,
    place: gateway,
    footer: LINK_FOOTER,
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
<input type="hidden" name="${linkFields.ticket}" value="${ticket}">
<input type="hidden" name="${linkFields.token}" value="${token}">
<button>Log in</button>
</form>`,
  }
}

function named({ name, email }: LinkQuestion['account']): Markup {
  if (name === undefined && email === undefined)
    return html`<b>the one that your program uses</b><br><span class="small soft">its provider tells no name</span>`
  return html`<b><bdi>${name ?? email}</bdi></b>${name === undefined || email === undefined ? '' : html`<br><span class="small soft"><bdi>${email}</bdi></span>`}`
}

const MESSAGE_FOOTER = html`An authorization server for MCP clients.`

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
  footer: MESSAGE_FOOTER,
  body: html`
<h1>${title}</h1>
<p>${text}</p>
<p class="note">${advice}</p>
${onward === undefined ? '' : html`<p><a href="${onward.href}">${onward.text}</a></p>`}`,
})
