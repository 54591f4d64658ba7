import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'

/** The question at which provider the user logs in. */
export interface ChoiceQuestion {
  readonly gateway: string
  readonly providers: readonly { readonly name: string; readonly host: string }[]
  /** True if the user enters an e-mail address first, and sees the providers only if it matches none. */
  readonly asksForAddress: boolean
  /** True if the address that the user has just entered matches no provider. */
  readonly isUnknown: boolean
  /** The URL that the form is posted to. */
  readonly action: string
  /** The token that the form returns, which holds the login. */
  readonly token: string
}

/** Names of the form's fields. */
export const fields = { token: 'token', email: 'email', provider: 'provider' } as const

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
<input type="hidden" name="${fields.token}" value="${token}">
${asksForAddress ? ADDRESS : html`<ul class="plain">${providers.map(renderChoice)}</ul>`}
</form>`,
  }
}

const ADDRESS = html`<p><label for="email"><b>E-mail address</b></label></p>
<p><input id="email" name="${fields.email}" type="email" autocomplete="email" spellcheck="false" maxlength="320" size="32" autofocus></p>
<div class="choices"><button>Continue</button></div>
<p class="small soft">Leave it empty to choose from a list.</p>`

const renderChoice = ({ name, host }: ChoiceQuestion['providers'][number]): Markup =>
  html`<li class="link"><button name="${fields.provider}" value="${name}">Log in at <bdi>${name}</bdi></button> <span class="small soft">${host}</span></li>`
