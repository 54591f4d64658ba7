import { html } from 'hono/html'
import type { Page } from '../../pages/page.ts'
import { renderTime } from './account-pages.ts'

/** Names of the form’s fields. */
export const fields = { provider: 'provider', proof: 'for', token: 'token', key: 'key' } as const

export interface KeyQuestion {
  readonly gateway: string
  readonly user: { readonly name?: string; readonly email?: string }
  readonly provider: string
  readonly title: string
  readonly helpUrl: string | undefined
  readonly maxLength: number
  /** The time when the stored key was entered, in milliseconds since 1970; undefined if there is none. */
  readonly since: number | undefined
  /** The reason why the last entry was not stored. */
  readonly problem: string | undefined
  /** The URL that the form is posted to. */
  readonly action: string
  /** The token that the form returns. It is valid once. */
  readonly token: string
}

const FOOTER = html`The key is encrypted under your name. It is never shown again, and you can delete it at any time.`

/** Renders the page on which a user enters a key. It works without scripts. */
export function keyPage(question: KeyQuestion): Page {
  const { gateway, user, provider, title, helpUrl, maxLength, since, problem, action, token } = question
  const who = user.name ?? user.email
  return {
    title: `Your key for ${title}`,
    place: gateway,
    footer: FOOTER,
    body: html`
<h1>Your key for <bdi>${title}</bdi></h1>
<p>Your programs reach <bdi>${title}</bdi> by <bdi>${gateway}</bdi> with a key that is yours alone.${who === undefined ? '' : html` You are signed in as <b><bdi>${who}</bdi></b>.`}</p>
${since === undefined ? '' : html`<p class="note">There is a key since ${renderTime(since)}. A new one replaces it.</p>`}
${problem === undefined ? '' : html`<p class="note warn" role="alert" id="problem">${problem}</p>`}
<form method="post" action="${action}" autocomplete="off">
<input type="hidden" name="${fields.token}" value="${token}">
<input type="hidden" name="${fields.provider}" value="${provider}">
<p><label for="key"><b>Key</b></label>${helpUrl === undefined ? '' : html` <a href="${helpUrl}" rel="noreferrer noopener" target="_blank">How to get one</a>`}</p>
<p><input id="key" name="${fields.key}" type="password" required autocomplete="off" spellcheck="false" maxlength="${maxLength + 64}"${problem === undefined ? '' : html` aria-invalid="true" aria-describedby="problem"`} autofocus></p>
<div class="choices"><button>Keep this key</button></div>
</form>
<p class="small soft">Keep a key here only if a program of yours has just asked for it. If somebody else has sent you this link, close the page.</p>`,
  }
}
