import { hash } from 'node:crypto'
import { type AccountSession, SESSION_S } from '../account/account-sessions.ts'
import { KeyRefused } from '../account/user-keys.ts'
import { randomSecret } from '../keys/keyed-hash.ts'
import { fields, keyPage } from '../pages/key-page.ts'
import { back, sessionOf, signInFor } from './account.ts'
import { readForm } from './form.ts'
import type { Front, FrontContext } from './front.ts'
import { dropWay, keepWay } from './key-way.ts'
import { problemPage, showPage } from './show.ts'

/** The statement of the proof that the form carries. */
const FORM = 'key-form'
/** The form’s token: what makes it unique, and the proof that it was shown in this session. */
const TOKEN = /^([\w-]{43})\.([\w-]{43})$/

/** Shows the page on which a user enters a key. Who is not signed in signs in first, and comes back here. */
export async function keyForm(front: Front, c: FrontContext): Promise<Response> {
  const query = new URL(c.req.url).searchParams
  const [provider, proof] = [query.get(fields.provider) ?? '', query.get(fields.proof) ?? '']
  if (!front.keys.has(provider)) return problemPage(front, c, 'key')
  const session = await sessionOf(front, c)
  if (session === undefined) {
    keepWay(front, c, { provider, proof })
    return signInFor(front, c, front.keys.titleOf(provider))
  }
  dropWay(front, c)
  // A link names its user. From the page of sessions there is none: whoever is signed in means their own key.
  if (proof !== '' && !front.keys.isFor(session.user.subject, provider, proof))
    return problemPage(front, c, 'linkPerson')
  return formFor(front, c, session, { provider })
}

/** Keeps the key of the form. */
export async function keepKey(front: Front, c: FrontContext): Promise<Response> {
  // This server's pages send no form that is malformed or too large.
  const form = await readForm(c).catch(() => undefined)
  const [token, provider, typed] = [fields.token, fields.provider, fields.key].map((name) => form?.get(name) ?? '')
  const session = await sessionOf(front, c)
  if (session === undefined || provider === undefined || !(await isFirst(front, session, provider, token ?? '')))
    return problemPage(front, c, 'page')
  if (!front.logins.take(front.addressOf(c.env.incoming))) return problemPage(front, c, 'busy')
  try {
    const done = await front.keys.set(session.user.subject, provider, typed ?? '')
    c.var.record?.key(session.user, `key_${done}`, provider)
    await front.store.settled()
    return back(front, c, front.accounts.proofOf(session, 'key-kept'))
  } catch (error) {
    if (!(error instanceof KeyRefused)) throw error
    return formFor(front, c, session, { provider, problem: error.text })
  }
}

/** Tells whether a form was shown in this session for this provider, and is sent for the first time. */
async function isFirst(front: Front, session: AccountSession, provider: string, token: string): Promise<boolean> {
  const [, nonce = '', proof = ''] = TOKEN.exec(token) ?? []
  if (nonce === '' || !front.accounts.isProof(proof, session, FORM, provider, nonce)) return false
  const name = hash('sha256', token, 'base64url')
  return front.store.add('keyForm', name, '1', { ttlS: SESSION_S, by: [session.user.subject] })
}

async function formFor(
  front: Front,
  c: FrontContext,
  session: AccountSession,
  { provider, problem }: { readonly provider: string; readonly problem?: string },
): Promise<Response> {
  const shown = await front.keys.show(session.user.subject, provider)
  if (shown === undefined) return problemPage(front, c, 'key')
  const nonce = randomSecret()
  const page = keyPage({
    gateway: front.title,
    user: session.user,
    provider,
    title: shown.title,
    helpUrl: shown.helpUrl,
    maxLength: shown.maxLength,
    since: shown.kept?.since,
    problem,
    action: 'key',
    token: `${nonce}.${front.accounts.proofOf(session, FORM, provider, nonce)}`,
  })
  return showPage(c, page, problem === undefined ? 200 : 400)
}
