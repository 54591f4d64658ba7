/** Answers of the gateway itself, without a backend. */
import { isObject } from '../../../crds/settings/json.ts'
import { PublicError } from '../../server/errors.ts'
import type { LinkOffer } from '../../upstream-tokens/index.ts'
import { type Backend, unreachable } from '../backends/backend/backend.ts'
import { connectionFailure } from '../backends/connection/failure.ts'
import { CAPABILITIES_KEY, MAY_ASK } from '../mcp/eras.ts'
import { editObject, memberText } from '../mcp/json.ts'
import { type Message, withParams } from '../mcp/message.ts'
import { errorResult, resultText } from '../mcp/rpc-text.ts'
import type { Refusal } from '../rate-limits/rate-limits.ts'
import type { RequestContext } from '../request/exchange.ts'
import { hasCapabilities } from './input/server-request.ts'

/**
 * Answers a tool call that a rate limit refuses. A gateway answers with an error result, which a model understands. A
 * proxy, which acts as a server, and a request without a result answer with the HTTP form (RFC 6585 section 4).
 */
export function answerLimited(context: RequestContext, refusal: Refusal): void {
  const { setup, era, message, reply } = context
  const error = limitError(refusal)
  if (setup.config.role === 'proxy' || message.params?.['task'] !== undefined || message.id === undefined) {
    context.fail(error)
    return
  }
  reply.json(200, resultText(message.id, errorResult(era, error.message, error.data)))
  context.ended({ result: 'error', code: error.code })
}

function limitError({ retryAfterSeconds }: Refusal): PublicError {
  const seconds = retryAfterSeconds === 1 ? 'a second' : `${retryAfterSeconds} seconds`
  return new PublicError('rate_limited', {
    message: `Too many calls; this one may be made in ${seconds}.`,
    data: { retryAfterSeconds },
    headers: { 'Retry-After': String(retryAfterSeconds) },
  })
}

/**
 * Answers a request whose backends are missing. If one of them waits for its caller's login at a provider, the answer
 * is a link, else it throws the error that names them.
 */
export function answerUnreachable(request: RequestContext, backends: readonly Backend[]): void {
  const waiting = backends.find(({ caller }) => caller?.link !== undefined)
  if (waiting === undefined) throw unreachable(backends)
  request.run(() => offerLink(request, waiting))
}

async function offerLink(request: RequestContext, backend: Backend): Promise<void> {
  try {
    // The caller may have logged in a moment ago.
    await backend.caller?.needed()
  } catch (error) {
    const { link } = connectionFailure(error)
    if (link === undefined) throw unreachable([backend])
    answerWithLink(request, await link())
    return
  }
  backend.refreshLists()
  throw new PublicError('backend_unavailable', {
    message: `The backend ${JSON.stringify(backend.name)} is still listing its tools; call again in a moment.`,
  })
}

/** The key of our question in the responses of a modern client's retry. */
const KEY = 'portico.login'
/** The only legacy revision in which an error may ask the user to visit a URL. */
const WITH_URLS = '2025-11-25'
const URLS = { elicitation: { url: {} } }

/**
 * Answers a request that a backend can't serve until its user has logged in at a provider. The answer contains the link
 * in a form that the client supports. A modern client that retries too early gets the link as text, since it might
 * otherwise retry in a loop.
 */
export function answerWithLink(context: RequestContext, offer: LinkOffer): void {
  const { message } = context
  const { id, url } = offer
  const { reason, once, step } = buildTexts(offer)
  const question = { mode: 'url', message: `${reason}${once}.`, url }
  const text = `${reason}. Open this link in a browser, ${step} there, then call again: ${url}`
  if (takesUrlError(context))
    context.fail(
      new PublicError('login_needed', { message: text, data: { elicitations: [{ ...question, elicitationId: id }] } }),
    )
  else if (takesQuestion(context)) context.result(questionText(message, question))
  else if (message.method === 'tools/call' && message.params?.['task'] === undefined)
    context.result(errorResult(context.era, text))
  else context.fail(new PublicError('backend_unavailable', { message: text }))
}

/** Returns the texts of a link: why it is needed, how often, and what the user does there. */
function buildTexts({ provider, key, isForAll }: LinkOffer): Readonly<Record<'reason' | 'once' | 'step', string>> {
  if (key === undefined) {
    const reason = `You have to log in at the provider ${JSON.stringify(provider)} first`
    return { reason, once: isForAll ? ', once for all programs' : ', once for this program', step: 'log in' }
  }
  if (key.isRefused)
    return {
      reason: `The server has refused your key for ${key.title}`,
      once: ': enter another one',
      step: 'enter another one',
    }
  return {
    reason: `You have to enter your key for ${key.title} first`,
    once: ', once for all programs',
    step: 'enter it',
  }
}

function takesUrlError({ era, session }: RequestContext): boolean {
  if (era === 'modern' || session === undefined || session.record.revision !== WITH_URLS) return false
  return hasCapabilities(JSON.parse(session.record.capabilities), URLS)
}

const takesQuestion = ({ era, message }: RequestContext): boolean =>
  era === 'modern' &&
  MAY_ASK.has(message.method) &&
  !hasResponse(message) &&
  hasCapabilities(message.meta?.[CAPABILITIES_KEY], URLS)

function questionText(message: Message, params: object): string {
  const state = message.parameter('requestState')
  return JSON.stringify({
    resultType: 'input_required',
    inputRequests: { [KEY]: { method: 'elicitation/create', params } },
    // After the login the backend's earlier questions continue.
    ...(state !== undefined && { requestState: state }),
  })
}

/** Tells whether a request is the retry after our question. */
function hasResponse({ params }: Message): boolean {
  const responses = params?.['inputResponses']
  return isObject(responses) && Object.hasOwn(responses, KEY)
}

/** Removes the response to our own question from a request, because no backend has asked it. */
export function withoutLinkResponse(message: Message): Message {
  if (!hasResponse(message)) return message
  const params = message.text.slice(message.paramsStart, message.paramsEnd)
  const others = editObject(memberText(params, 'inputResponses') ?? '{}', { [KEY]: undefined })
  return withParams(message, editObject(params, { inputResponses: others === '{}' ? undefined : others }))
}
