import { html } from 'hono/html'
import type { Page } from '../../pages/page.ts'
import { actions, fields } from './account-fields.ts'

interface SignIn {
  /** Name of the gateway. */
  readonly gateway: string
  /** Host of the identity provider that says who users are. */
  readonly provider: string
  /** Where the form is posted to. */
  readonly action: string
  /** Goes back with the form: proof that it was sent from this page. */
  readonly token: string
}

/** Offers to sign in to who wants to see what is linked to them. */
export const signInPage = ({ gateway, provider, action, token }: SignIn): Page => ({
  title: 'What is linked to you',
  place: gateway,
  footer: html`You stay signed in for 15 minutes, in this browser alone.`,
  // To the provider, and where that sends the browser.
  formsLead: 'anywhere',
  body: html`
<h1>What is linked to you</h1>
<p>Programs that you have allowed to use <bdi>${gateway}</bdi>, and the accounts that they reach by it. Sign in to see them,
and to end what you don’t need any more.</p>
<form method="post" action="${action}">
<input type="hidden" name="${fields.token}" value="${token}">
<button name="${fields.action}" value="${actions.signIn}">Sign in at ${provider}</button>
</form>`,
})
