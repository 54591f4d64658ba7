import { renderPage } from '../../pages/page.ts'
import type { LoginStep } from '../login/login.ts'
import { messagePage } from '../pages/message-page.ts'
import type { Front, FrontContext } from './front.ts'
import { problemPage } from './problem-page.ts'
import { privately } from './redirect.ts'

/** The user has logged in at the provider. */
export async function linked(
  front: Front,
  c: FrontContext,
  step: Extract<LoginStep, { kind: 'done' }>,
): Promise<Response> {
  const provider = await front.loginLinks.finish(step)
  if (provider === undefined) return problemPage(front, c, 'linkEnded')
  await front.store.settled()
  const message = {
    title: `${provider} is linked`,
    text: 'Your program can use it for you from now on.',
    advice: 'You can close this page, and have your program try again.',
  }
  return privately(await renderPage(c, messagePage(front.title, message)))
}

/** The user has not. */
export const notLinked = (
  front: Front,
  c: FrontContext,
  { error }: Extract<LoginStep, { kind: 'failed' }>,
): Promise<Response> => problemPage(front, c, error === 'other_user' ? 'linkPerson' : 'linkProvider')
