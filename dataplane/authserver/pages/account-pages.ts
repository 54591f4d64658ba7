import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { answeredAt, findDestination, knownBy, scopeList } from './client-facts.ts'
import type { FormPage } from './login-pages.ts'

/** Names of the form fields on the account page. */
export const fields = {
  token: 'token',
  action: 'action',
  revoke: 'revoke',
  unlink: 'unlink',
  deleteKey: 'delete-key',
} as const

/** Values of `action`. */
export const actions = { signIn: 'sign-in', signOut: 'sign-out', revokeAll: 'revoke-all' } as const

/** A client that may act for the user. */
export interface LinkedClient {
  /** The client's value in the form. */
  readonly id: string
  /** The name that the client reports, unverified. */
  readonly name: string | undefined
  /** The client id, if it is the URL of a metadata document. */
  readonly document: string | undefined
  /** The redirect URIs of the client; empty if the client is no longer known. */
  readonly redirectUris: readonly string[]
  readonly scopes: readonly string[]
  /** The time of the consent, in milliseconds since 1970. */
  readonly since: number
  /** The time when the grant expires if it is not used, in milliseconds since 1970. */
  readonly endsAt: number
  readonly providers: readonly LinkedAccount[]
}

/** The user's account at a provider. */
interface LinkedAccount {
  /** The account's value in the form. */
  readonly id: string
  readonly host: string
  readonly isLinked: boolean
  /** The time when the provider gave the tokens, in milliseconds since 1970; undefined if unknown. */
  readonly since?: number
}

export interface LinkedToUser extends FormPage {
  readonly user: { readonly name?: string; readonly email?: string }
  /** The clients, the last used first. */
  readonly links: readonly LinkedClient[]
  /** The user's accounts at providers that all of their clients reach. */
  readonly accounts: readonly LinkedAccount[]
  /** The keys of providers at which this user can enter one; empty if there are none. */
  readonly keys: readonly OwnKey[]
  /** True if the list was cut. */
  readonly isCut: boolean
  /** True if an assertion may have given access that no list shows. */
  readonly hasUnlisted?: boolean
  /** The action that was just done. */
  readonly done: keyof typeof SAID | undefined
}

const SAID = {
  unlinked: 'The account is unlinked. Within seconds this program can no longer use it.',
  'account-unlinked': 'The account is unlinked. Within seconds no program can use it.',
  revoked: 'Access is revoked. The program has to ask you again.',
  'revoked-all': 'All access is revoked. Every program has to ask you again.',
  'key-kept': 'The key is kept. Your programs use it from now on. Close this page, and let your program try again.',
  'key-deleted': 'The key is deleted. Within seconds no program can use it.',
} as const

const FOOTER = html`Anyone who sees this page can end what is listed, and enter keys. You are signed out after 15 minutes.`

/** Renders a user's clients and provider accounts, with a button to end each. It works without scripts. */
export function linksPage({
  gateway,
  user,
  links,
  accounts,
  keys,
  isCut,
  hasUnlisted,
  done,
  action,
  token,
}: LinkedToUser): Page {
  return {
    title: 'What is linked to you',
    place: gateway,
    footer: FOOTER,
    body: html`
<h1>What is linked to you</h1>
${done === undefined ? '' : html`<p class="note" role="status">${SAID[done]}</p>`}
<p>${whoIs(user)} These programs may use <bdi>${gateway}</bdi> for you. Revoking one ends what it has at once. Unlinking an account
takes that account alone from it.</p>
<form method="post" action="${action}">
<input type="hidden" name="${fields.token}" value="${token}">
${links.length === 0 ? html`<p class="empty">No program may act for you here.</p>` : html`<ul class="plain">${links.map(renderLink)}</ul>`}
${accounts.length === 0 ? '' : html`<h2>Your accounts</h2><ul class="plain">${accounts.map(ownAccount)}</ul>`}
${keys.length === 0 ? '' : html`<h2>Your keys</h2><ul class="plain">${keys.map(renderKey)}</ul>`}
${isCut ? html`<p class="soft">The ${links.length} that were used last are shown. Others come into the list once they are used.</p>` : ''}
<div class="choices"><button name="${fields.action}" value="${actions.signOut}" class="quiet">Sign out</button></div>
${links.length === 0 && accounts.length === 0 && !hasUnlisted ? '' : REVOKE_ALL}
</form>`,
  }
}

const REVOKE_ALL = html`<details class="link"><summary>Revoke everything</summary>
<p>Ends the access of all programs at once, also of those that are not listed, and forgets what your accounts have given this gateway.</p>
<button name="${fields.action}" value="${actions.revokeAll}">Revoke everything now</button>
</details>`

function whoIs({ name, email }: LinkedToUser['user']): Markup | string {
  const shown = name ?? email
  if (shown === undefined) return ''
  const address = name === undefined || email === undefined ? '' : html` (<bdi>${email}</bdi>)`
  return html`You are signed in as <b><bdi>${shown}</bdi></b>${address}.`
}

function renderLink({ id, document, redirectUris, scopes, since, endsAt, providers, ...client }: LinkedClient): Markup {
  const name = client.name ?? 'A program'
  return html`<li class="link">
<h2><bdi>${name}</bdi></h2>
<p class="small soft">${redirectUris.length === 0 ? 'It is not known here any more.' : knownBy(document)}</p>
<table class="facts"><tbody>
<tr><th scope="row">Allowed</th><td class="wrap">${renderTime(since)}, and until ${renderTime(endsAt)} if it isn’t used</td></tr>
${redirectUris.length === 0 ? '' : html`<tr><th scope="row">Answers go to</th><td class="wrap">${renderDestinations(redirectUris)}</td></tr>`}
${scopes.length === 0 ? '' : html`<tr><th scope="row">It may</th><td class="wrap">${scopeList(scopes)}</td></tr>`}
${providers.map((provider) => renderAccount(provider, name))}
</tbody></table>
<button name="${fields.revoke}" value="${id}" aria-label="Revoke ${name}, allowed ${formatTime(since)}">Revoke</button>
</li>`
}

/** Returns each destination once, even if several redirect URIs lead there. */
function renderDestinations(redirectUris: readonly string[]): readonly Markup[] {
  const found = redirectUris.map(findDestination)
  const keys = found.map((one) => JSON.stringify(one))
  return found
    .filter((_, index) => keys.indexOf(keys[index] as string) === index)
    .map((one) => html`<div>${answeredAt(one)}</div>`)
}

const renderAccount = ({ id, host, isLinked, since }: LinkedAccount, client: string): Markup => html`<tr>
<th scope="row">Account</th><td class="wrap"><b>${host}</b> ${
  isLinked
    ? html`linked${since === undefined ? '' : html` since ${renderTime(since)}`} <button name="${fields.unlink}" value="${id}" class="quiet small" aria-label="Unlink ${host} from ${client}">Unlink</button>`
    : html`<span class="soft">not linked</span>`
}</td></tr>`

const ownAccount = ({ id, host, since }: LinkedAccount): Markup => html`<li class="link">
<h2>${host}</h2>
<p class="soft">Linked${since === undefined ? '' : html` since ${renderTime(since)}`}, for all of your programs.</p>
<button name="${fields.unlink}" value="${id}" class="quiet" aria-label="Unlink ${host}">Unlink</button>
</li>`

/** A key as its owner may see it. */
export interface ShownKey {
  readonly provider: string
  readonly title: string
  readonly helpUrl: string | undefined
  readonly maxLength: number
  /** Absent if the user has none. */
  readonly kept?: {
    /** Milliseconds since 1970. */
    readonly since: number
    /** Its last characters; undefined if it is too short to show any. */
    readonly end: string | undefined
    /** Milliseconds since 1970; absent: it does not end. */
    readonly endsAt?: number
    readonly isEnding: boolean
    /** True if the server has refused it. */
    readonly isRefused: boolean
  }
}

/** A key that the user entered, or can enter, for a server. */
interface OwnKey extends ShownKey {
  /** The key’s value in the form that deletes it. */
  readonly id: string
}

function renderKey({ provider, title, kept, id }: OwnKey): Markup {
  const way = `key?${new URLSearchParams({ provider })}`
  if (kept === undefined)
    return html`<li class="link"><h2><bdi>${title}</bdi></h2><p class="soft">No key. <a href="${way}">Enter one</a></p></li>`
  const { since, end, endsAt, isEnding, isRefused } = kept
  return html`<li class="link">
<h2><bdi>${title}</bdi></h2>
${isRefused ? html`<p class="note warn">The server has refused this key. <a href="${way}">Enter another one</a>.</p>` : ''}
${isEnding ? html`<p class="note warn">This key ends soon. <a href="${way}">Enter another one</a>.</p>` : ''}
<table class="facts"><tbody>
${end === undefined ? '' : html`<tr><th scope="row">Key</th><td class="wrap"><code>…${end}</code></td></tr>`}
<tr><th scope="row">Entered</th><td class="wrap">${renderTime(since)}</td></tr>
${endsAt === undefined ? '' : html`<tr><th scope="row">Ends</th><td class="wrap">${renderTime(endsAt)}</td></tr>`}
</tbody></table>
<button name="${fields.deleteKey}" value="${id}" class="quiet" aria-label="Delete the key for ${title}">Delete</button>
<a href="${way}" aria-label="Replace the key for ${title}">Replace</a>
</li>`
}

const FORMAT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

const formatTime = (time: number): string => `${FORMAT.format(time)} UTC`
const renderTime = (time: number): Markup =>
  html`<time datetime="${new Date(time).toISOString()}">${formatTime(time)}</time>`

interface SignIn extends FormPage {
  /** The host of the identity provider that identifies users. */
  readonly provider: string
  /** The title of the key that the user is about to enter; undefined if they want to see their account page. */
  readonly key?: string | undefined
}

/** Renders the page that asks users to sign in before they see their account page, or enter a key. */
export const signInPage = ({ gateway, provider, action, token, key }: SignIn): Page => ({
  title: key === undefined ? 'What is linked to you' : `Your key for ${key}`,
  place: gateway,
  footer: html`You stay signed in for 15 minutes, in this browser alone.`,
  // The form leads to the provider, and further to where that redirects.
  formsLead: 'anywhere',
  body: html`
${
  key === undefined
    ? html`<h1>What is linked to you</h1>
<p>Programs that you have allowed to use <bdi>${gateway}</bdi>, and the accounts that they reach by it. Sign in to see them,
and to end what you don’t need any more.</p>`
    : html`<h1>Your key for <bdi>${key}</bdi></h1>
<p>A program of yours needs a key of yours for <bdi>${key}</bdi>. Sign in first, so that it is kept under your name and
nobody else’s.</p>`
}
<form method="post" action="${action}">
<input type="hidden" name="${fields.token}" value="${token}">
<button name="${fields.action}" value="${actions.signIn}">Sign in at ${provider}</button>
</form>`,
})

/** Names of the form fields on the page of a key. */
export const keyFields = { provider: 'provider', proof: 'for', token: 'token', key: 'key' } as const

/** The question for a key. The token of its form is valid once. */
interface KeyQuestion extends FormPage, Pick<LinkedToUser, 'user'>, Omit<ShownKey, 'kept'> {
  /** The time when the stored key was entered, in milliseconds since 1970; undefined if there is none. */
  readonly since: number | undefined
  /** The reason why the last entry was not stored. */
  readonly problem: string | undefined
}

const KEY_FOOTER = html`The key is encrypted under your name. It is never shown again, and you can delete it at any time.`

/** Renders the page on which a user enters a key. It works without scripts. */
export function keyPage(question: KeyQuestion): Page {
  const { gateway, user, provider, title, helpUrl, maxLength, since, problem, action, token } = question
  const who = user.name ?? user.email
  return {
    title: `Your key for ${title}`,
    place: gateway,
    footer: KEY_FOOTER,
    body: html`
<h1>Your key for <bdi>${title}</bdi></h1>
<p>Your programs reach <bdi>${title}</bdi> by <bdi>${gateway}</bdi> with a key that is yours alone.${who === undefined ? '' : html` You are signed in as <b><bdi>${who}</bdi></b>.`}</p>
${since === undefined ? '' : html`<p class="note">There is a key since ${renderTime(since)}. A new one replaces it.</p>`}
${problem === undefined ? '' : html`<p class="note warn" role="alert" id="problem">${problem}</p>`}
<form method="post" action="${action}" autocomplete="off">
<input type="hidden" name="${keyFields.token}" value="${token}">
<input type="hidden" name="${keyFields.provider}" value="${provider}">
<p><label for="key"><b>Key</b></label>${helpUrl === undefined ? '' : html` <a href="${helpUrl}" rel="noreferrer noopener" target="_blank">How to get one</a>`}</p>
<p><input id="key" name="${keyFields.key}" type="password" required autocomplete="off" spellcheck="false" maxlength="${maxLength + 64}"${problem === undefined ? '' : html` aria-invalid="true" aria-describedby="problem"`} autofocus></p>
<div class="choices"><button>Keep this key</button></div>
</form>
<p class="small soft">Keep a key here only if a program of yours has just asked for it. If somebody else has sent you this link, close the page.</p>`,
  }
}
