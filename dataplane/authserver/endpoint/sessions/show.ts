import { type Page, renderPage } from '../../../pages/page.ts'
import type { AccountSession } from '../../account/account-sessions.ts'
import type { Link } from '../../account/links.ts'
import { documentOf } from '../../clients/metadata-document.ts'
import { type LinkedClient, linksPage } from '../../pages/links-page.ts'
import { signInPage } from '../../pages/sign-in-page.ts'
import { MOST_MEMBERS } from '../../store/record-store.ts'
import { browserOf } from '../browser.ts'
import type { Front, FrontContext } from '../front.ts'
import { PRIVATE, redirect } from '../redirect.ts'
import { sessionOf } from './account-cookie.ts'

/** Where forms are posted to, beside the page that they stand on, whatever a proxy has put before their paths. */
const ACTION = 'sessions'

/** What a page stands for, of which it holds a proof. */
export const PAGE = 'page'
/** What has been done, as the page says it that comes next. */
export const DONE = ['unlinked', 'revoked', 'revoked-all'] as const
export type Done = (typeof DONE)[number]

/** What is linked to whoever asks; at the host of callbacks, where the cookies are. */
export function sessions(front: Front, c: FrontContext): Response | Promise<Response> {
  const { accountEndpoint } = front.settings
  return accountEndpoint === undefined ? account(front, c) : redirect(accountEndpoint)
}

/** Shows what is linked to who is signed in, or how to sign in. It begins nothing. */
export async function account(front: Front, c: FrontContext): Promise<Response> {
  const session = await sessionOf(front, c)
  if (session !== undefined) return shown(c, await linked(front, c, session))
  const browser = browserOf(front, c)
  const { primary } = front.settings
  const page = signInPage({
    gateway: front.title,
    provider: primary.host,
    action: ACTION,
    token: front.provider().keyed.of('sign-in-page', browser.id),
  })
  return shown(c, page)
}

async function linked(front: Front, c: FrontContext, session: AccountSession): Promise<Page> {
  const { accounts, settings, links } = front
  const proof = (...what: readonly string[]) => accounts.proofOf(session, ...what)
  const found = await links.of(session.user.subject, front.addressOf(c.env.incoming))
  const hosts = new Map(settings.providers.map(({ name, host }) => [name, host]))
  const clientOf = ({ grant, clientId, client, ...rest }: Link): LinkedClient => ({
    ...rest,
    name: client?.client_name,
    document: documentOf(clientId),
    redirectUris: client?.redirect_uris ?? [],
    id: proof('revoke', grant),
    providers: rest.providers.map(({ name, ...provider }) => ({
      ...provider,
      host: hosts.get(name) ?? name,
      id: proof('unlink', grant, name),
    })),
  })
  const said = c.req.query('done') ?? ''
  return linksPage({
    gateway: front.title,
    user: session.user,
    links: found.map(clientOf),
    isCut: found.length === MOST_MEMBERS,
    // Whoever makes somebody follow a link has nothing said here that has not happened.
    done: DONE.find((one) => accounts.isProof(said, session, one)),
    action: ACTION,
    token: proof(PAGE),
  })
}

async function shown(c: FrontContext, page: Page): Promise<Response> {
  const response = await renderPage(c, page)
  for (const [name, value] of Object.entries(PRIVATE)) response.headers.set(name, value)
  return response
}
