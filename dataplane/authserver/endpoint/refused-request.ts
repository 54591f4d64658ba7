import { html } from 'hono/html'
import { renderPage } from '../../pages/page.ts'
import { destinationOf } from '../pages/destination.ts'
import { messagePage } from '../pages/message-page.ts'
import type { Front, FrontContext } from './front.ts'
import { privately, redirect } from './redirect.ts'

/**
 * Has a client told that its request won't do, whose user has not been asked anything yet. Everybody may register a client:
 * a link to here must not lead on to any site, or open any app, before the person has seen where (RFC 9700 section
 * 4.11.2). A program on the person's own computer is told at once.
 */
export async function refusedRequest(front: Front, c: FrontContext, location: string): Promise<Response> {
  const { searchParams, hash } = new URL(location)
  const error = searchParams.get('error') ?? new URLSearchParams(hash.slice(1)).get('error') ?? undefined
  c.set('error', error)
  c.var.record?.refused(error)
  const destination = destinationOf(location)
  if (destination.kind === 'computer') return redirect(location)
  const where = destination.kind === 'app' ? `the app that opens ${destination.scheme} links` : destination.host
  const message = {
    title: 'This login can’t begin',
    text: `An application has sent you here with a request that can’t be served (${error ?? 'invalid_request'}).`,
    advice: html`If you have just asked it to connect, tell it: <a href="${location}" rel="noreferrer">go on to <bdi>${where}</bdi></a>. If a link brought you here, close this page.`,
  }
  return privately(await renderPage(c, messagePage(front.title, message), 400))
}
