import { hash } from 'node:crypto'
import { type AccountSession, SESSION_S } from '../account/account-sessions.ts'
import { KeyRefused } from '../account/user-keys.ts'
import { randomSecret } from '../keys/keyed-hash.ts'
import { keyFields, keyPage } from '../pages/account-pages.ts'
import { back, findSession, forgetKeyPage, rememberKeyPage, signInFor } from './account.ts'
import { readPageForm } from './form.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'
import { problemPage, showPage } from './show.ts'

/** The text that the form's proof signs. */
const FORM = 'key-form'
/** The form's token: a random part that makes it unique, and the proof that the form was shown in this session. */
const TOKEN = /^([\w-]{43})\.([\w-]{43})$/

/** Shows the page on which a user enters a key. A user without a session signs in first and then returns here. */
export async function keyForm(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const query = new URL(c.req.url).searchParams
  const [provider, proof] = [query.get(keyFields.provider) ?? '', query.get(keyFields.proof) ?? '']
  if (!parts.keys.has(provider)) return problemPage(parts, c, 'key')
  const session = await findSession(parts, c)
  if (session === undefined) {
    rememberKeyPage(parts, c, { provider, proof })
    return signInFor(parts, c, parts.keys.findTitle(provider))
  }
  forgetKeyPage(parts, c)
  // A link is valid for one user. The account page sends no proof, and the key then belongs to the signed-in user.
  if (proof !== '' && !parts.keys.isFor(session.user.subject, provider, proof))
    return problemPage(parts, c, 'linkPerson')
  return formFor(parts, c, session, { provider })
}

/** Stores the key that the form carries. */
export async function keepKey(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const form = await readPageForm(c)
  const provider = form.get(keyFields.provider) ?? ''
  const session = await findSession(parts, c)
  if (session === undefined || !(await isFirst(parts, session, provider, form.get(keyFields.token) ?? '')))
    return problemPage(parts, c, 'page')
  if (!parts.logins.take(parts.addressOf(c.env.incoming))) return problemPage(parts, c, 'busy')
  try {
    const done = await parts.keys.set(session.user.subject, provider, form.get(keyFields.key) ?? '')
    c.var.record?.key(session.user, `key_${done}`, provider)
    await parts.store.settled()
    return back(parts, c, parts.accounts.makeProof(session, 'key-kept'))
  } catch (error) {
    if (!(error instanceof KeyRefused)) throw error
    return formFor(parts, c, session, { provider, problem: error.text })
  }
}

/** Tells whether a form was shown in this session for this provider and is sent for the first time. */
async function isFirst(
  parts: EndpointParts,
  session: AccountSession,
  provider: string,
  token: string,
): Promise<boolean> {
  const [, nonce = '', proof = ''] = TOKEN.exec(token) ?? []
  if (nonce === '' || !parts.accounts.isProof(proof, session, FORM, provider, nonce)) return false
  const name = hash('sha256', token, 'base64url')
  return parts.store.add('keyForm', name, '1', { ttlS: SESSION_S, by: [session.user.subject] })
}

async function formFor(
  parts: EndpointParts,
  c: EndpointContext,
  session: AccountSession,
  { provider, problem }: { readonly provider: string; readonly problem?: string },
): Promise<Response> {
  const shown = await parts.keys.show(session.user.subject, provider)
  if (shown === undefined) return problemPage(parts, c, 'key')
  const nonce = randomSecret()
  const page = keyPage({
    gateway: parts.title,
    user: session.user,
    ...shown,
    since: shown.kept?.since,
    problem,
    action: 'key',
    token: `${nonce}.${parts.accounts.makeProof(session, FORM, provider, nonce)}`,
  })
  return showPage(c, page, problem === undefined ? 200 : 400)
}
