import { html } from 'hono/html'
import { type Page, renderPage } from '../../pages/page.ts'
import { type Message, messagePage } from '../pages/login-pages.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** Headers of every step of a login: no cache keeps the page, and the next site receives no referrer. */
export const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } as const

/** Sets these headers on a response. */
export function privately(response: Response): Response {
  for (const [name, value] of Object.entries(PRIVATE)) response.headers.set(name, value)
  return response
}

export const redirect = (location: string): Response =>
  new Response(null, { status: 303, headers: { location, ...PRIVATE } })

type Status = Parameters<typeof renderPage>[2]

/** Shows a page in the user's browser. */
export const showPage = async (c: EndpointContext, page: Page, status?: Status): Promise<Response> =>
  privately(await renderPage(c, page, status))

/** Shows a message in the user's browser. */
export const showMessage = (
  parts: EndpointParts,
  c: EndpointContext,
  message: Message,
  status?: Status,
): Promise<Response> => showPage(c, messagePage(parts.title, message), status)

const title = 'This login can’t continue'
const advice = 'Go back to the application, and begin again there.'

const SESSIONS = html`Open <a href="sessions">what is linked to you</a> again.`
const unlinked = 'Nothing has been linked'
const anew = 'Let your program try again: it gives you another link.'

const PROBLEMS = {
  parameters: { title, advice, text: 'The application has sent you here with a request that is malformed.' },
  client: {
    title,
    text: 'The application that sent you here is no longer registered.',
    advice: 'Remove the server from the application and add it again, so that the application registers again.',
  },
  document: {
    title,
    text: 'The application that sent you here is known by an address, and the document at that address does not describe it as required.',
    advice: 'Its developers can fix that. If the application can register itself, let it do so.',
  },
  redirect: {
    title,
    advice,
    text: 'The application wants the answer at an address that it has not registered.',
  },
  login: {
    title,
    advice,
    text: 'It has been used already, has taken too long, or was begun in another browser.',
  },
  page: {
    title: 'This page has ended',
    text: 'It was shown too long ago, in another browser, or before somebody else signed in.',
    advice: SESSIONS,
  },
  gone: {
    title: 'That is not linked to you any more',
    text: 'It has ended in the meantime.',
    advice: SESSIONS,
  },
  signIn: {
    title: 'You are not signed in',
    text: 'You or your identity provider have refused, or the provider could not be asked.',
    advice: SESSIONS,
  },
  nobody: {
    title: 'There is nothing to show',
    text: 'Your identity provider does not identify you, so each login here is separate.',
    advice: 'Have your programs log out; unused logins expire.',
  },
  link: {
    title: unlinked,
    text: 'This link has been used already, has taken too long, or was opened in another browser.',
    advice: anew,
  },
  linkProvider: {
    title: unlinked,
    text: 'The login at an identity provider was refused, or has failed.',
    advice: anew,
  },
  linkPerson: {
    title: unlinked,
    text: 'This link belongs to another person.',
    advice:
      'If you did not ask for this link, ignore it. If it is yours, log out at the identity provider, and log in as the person that the page names.',
  },
  key: {
    title: 'No key is needed here',
    text: 'This gateway no longer reaches the server that needed it.',
    advice: SESSIONS,
  },
  linkEnded: {
    title: unlinked,
    text: 'The login that the link belongs to has ended.',
    advice: 'Connect your program again.',
  },
  noLogins: {
    title: 'Nobody logs in here',
    text: 'Programs get access to this server with credentials from their identity provider or their operator.',
    advice: 'Ask the people who run this server how to connect your application.',
  },
  busy: {
    title: 'Too many logins have begun in your network',
    text: 'Unfinished logins are kept for some minutes.',
    advice: 'Try again in a few seconds.',
  },
  unavailable: {
    title: 'Logging in does not work at the moment',
    text: 'A service that the login needs can’t be reached.',
    advice: 'Try again in a minute.',
  },
} as const satisfies Record<string, Message>

export type Problem = keyof typeof PROBLEMS

/** All other problems have the status 400. */
const STATUS: Partial<Record<Problem, 429 | 503>> = { busy: 429, unavailable: 503 }

/** Tells the user in the browser about a problem that can't be reported to a client (RFC 6749 section 4.1.2.1). */
export async function problemPage(parts: EndpointParts, c: EndpointContext, problem: Problem): Promise<Response> {
  const response = await showMessage(parts, c, PROBLEMS[problem], STATUS[problem] ?? 400)
  if (problem === 'busy') response.headers.set('retry-after', '5')
  return response
}
