import { html } from 'hono/html'
import { renderPage } from '../../pages/page.ts'
import type { LoginStep } from '../login/login.ts'
import { messagePage } from '../pages/message-page.ts'
import type { Front, FrontContext } from './front.ts'
import { privately } from './redirect.ts'

type Fault = NonNullable<Extract<LoginStep, { kind: 'failed' }>['fault']>

/**
 * Tells the person at the browser of a fault that is not theirs, and what to tell whom: most clients show no more than
 * that a login was refused. `client` is where the client is told so.
 */
export async function faultPage(
  front: Front,
  c: FrontContext,
  { provider, code }: Fault,
  client: string | undefined,
): Promise<Response> {
  const page = messagePage(front.title, {
    title: 'This login can’t go on',
    text: html`The identity provider <strong>${provider}</strong> and this gateway don’t get on: <code>${code}</code>. You can’t mend that.`,
    advice: html`Tell whoever operates ${front.title}: provider <code>${provider}</code>, code <code>${code}</code>, request <code>${c.var.request.id}</code>. The log has more under that request.`,
    ...(client !== undefined && { onward: { href: client, text: 'Go back to the application' } }),
  })
  return privately(await renderPage(c, page, 400))
}
