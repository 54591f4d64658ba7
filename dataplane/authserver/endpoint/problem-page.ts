import { renderPage } from '../../pages/page.ts'
import { type Message, messagePage } from '../pages/message-page.ts'
import type { Front, FrontContext } from './front.ts'
import { PRIVATE } from './redirect.ts'

const title = 'This login can’t go on'
const advice = 'Go back to the application, and begin again there.'

const PROBLEMS = {
  parameters: { title, advice, text: 'The application has sent you here with a request that is malformed.' },
  client: {
    title,
    text: 'The application that has sent you here is not known any more.',
    advice: 'Remove the server from the application and add it anew, so that it registers again.',
  },
  redirect: {
    title,
    advice,
    text: 'The application has asked to be answered at an address that it has not registered.',
  },
  login: {
    title,
    advice,
    text: 'It has been used already, has taken too long, or was begun in another browser.',
  },
  unavailable: {
    title: 'Logging in does not work at the moment',
    text: 'A part that this needs is away.',
    advice: 'Try again in a minute.',
  },
} as const satisfies Record<string, Message>

export type Problem = keyof typeof PROBLEMS

/** Tells the person at the browser what is wrong, where no client can be told (RFC 6749 section 4.1.2.1). */
export async function problemPage(front: Front, c: FrontContext, problem: Problem): Promise<Response> {
  const page = messagePage(front.title, PROBLEMS[problem])
  const response = await renderPage(c, page, problem === 'unavailable' ? 503 : 400)
  for (const [name, value] of Object.entries(PRIVATE)) response.headers.set(name, value)
  return response
}
