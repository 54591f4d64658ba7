import { hash } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { readBody } from '../../dataplane/server/body.ts'
import { type ErrorCode, PublicError, publicError } from '../../dataplane/server/errors.ts'
import type { HostNames } from '../../dataplane/server/hosts.ts'
import { type RequestVariables, requestIds } from '../../dataplane/server/request-id.ts'
import { clientDocument, WorkloadLogins } from '../mcp/logins.ts'
import { WorkloadTokens } from '../mcp/tokens.ts'
import { type Child, h, toTrees, visible } from '../pages/element.ts'
import { type Frame, pageText, pageTitle } from '../pages/frame.ts'
import { labelled, note } from '../pages/parts.ts'
import { PlaceError, type Places, type World } from '../places/place.ts'
import type { Prometheus } from '../places/prometheus.ts'
import { NO_SESSION } from '../session/local.ts'
import { formToken, isFormToken, type Session, type Sessions } from '../session/sessions.ts'
import { readAssets } from './assets.ts'
import { guard, securityHeaders } from './guard.ts'
import { openApiRoute, routes } from './routes.ts'
import { type Answer, type Page, type TypedInput, type Visit, waitBriefly } from './visit.ts'

export interface AppOptions {
  readonly places: Places
  readonly sessions: Sessions
  readonly names: HostNames
  /** The origin of the pages; undefined: derived from the Host header, over http. */
  readonly origin: string | undefined
  readonly log: Logger
  readonly prometheus?: Prometheus | undefined
}

type Env = { Variables: RequestVariables & { session?: Session } }

const VIEW = 'application/vnd.portico.view+json'
/** The largest body of a form, in bytes: 64 KiB of claims, percent-encoded, and the other fields. */
const LARGEST_FORM = 256 * 1024
const REFRESH_SECONDS = 10
/** The most sessions whose input is kept during a login, and the longest time for a login in milliseconds. */
const MOST_TYPED = 200
const TYPED_MS = 600_000

type Form = 'page' | 'json' | 'view'

function chooseForm(c: Context): Form {
  const accept = c.req.header('accept') ?? ''
  if (accept.includes(VIEW)) return 'view'
  return accept.includes('application/json') && !accept.includes('text/html') ? 'json' : 'page'
}

/** Creates the app: guard, login, assets, and the pages of the table `routes`. */
export function consoleApp(options: AppOptions): Hono<Env> {
  const { sessions, log, names, origin } = options
  const assets = readAssets()
  const app = new Hono<Env>()
  app.use(requestIds(log))
  app.use(securityHeaders)
  app.use(guard({ names, origin, isLocal: sessions.isLocal }))
  assets.routes(app as unknown as Hono)
  for (const path of ['/healthz', '/readyz']) app.get(path, (c) => c.json({ status: 'ok' }))
  app.get('/status', (c) => c.json({ sessionsInMemory: sessions.inMemory }))
  // Authorization servers fetch this document.
  app.get('/client.json', (c) => c.json(clientDocument(findOrigin(c, origin))))
  sessions.routes(app as unknown as Hono)
  app.use(async function identify(c, next) {
    const session = await sessions.find(c)
    if (session === undefined) return refuse(c, sessions)
    c.set('session', session)
    await next()
  })
  const buildFrame = (c: Context, title: string, isLive: boolean): Frame => {
    const session = c.get('session') as Session | undefined
    return {
      title,
      path: c.req.path,
      assets,
      place: session && options.places.title,
      viewer: session?.viewer.name,
      logout: session?.canLogOut ? formToken(sessions.formKey, session.id, '/logout') : undefined,
      refresh: isLive ? REFRESH_SECONDS : undefined,
      query: c.req.query('q'),
      time: `${new Date().toISOString().slice(11, 19)} UTC`,
    }
  }
  openApiRoute(app as unknown as Hono)
  const kept = {
    tokens: new WorkloadTokens(),
    logins: new WorkloadLogins(),
    typed: new LRUCache<string, TypedInput>({ max: MOST_TYPED, ttl: TYPED_MS }),
  }
  for (const [path, page] of Object.entries(routes)) {
    const serve = async (c: Context) => servePage(c as Context<Env>, page, { ...options, ...kept }, buildFrame)
    app.get(path, serve)
    app.post(path, serve)
  }
  const fail = (c: Context, error: PublicError) => errorPage(c, error, buildFrame, sessions)
  app.notFound((c) => fail(c, new PublicError('not_found', { message: 'There is no page at this address.' })))
  app.onError((error, c) => fail(c, errorFrom(error, c.get('log')?.())))
  return app
}

type FrameOf = (c: Context, title: string, isLive: boolean) => Frame

function refuse(c: Context, { loginPath }: Sessions): Response {
  if (loginPath === undefined) throw new PublicError('forbidden', { message: NO_SESSION })
  if (chooseForm(c) !== 'page' || c.req.method !== 'GET') throw new PublicError('session_ended')
  const { pathname, search } = new URL(c.req.url)
  return c.redirect(`${loginPath}?to=${encodeURIComponent(pathname + search)}`, 303)
}

function errorFrom(error: unknown, log: Logger | undefined): PublicError {
  if (!(error instanceof PlaceError)) return publicError(error, log)
  const code: Readonly<Record<PlaceError['kind'], ErrorCode>> = {
    refused: 'cluster_refused_token',
    forbidden: 'forbidden',
    away: 'cluster_unavailable',
  }
  const headers = error.kind === 'away' ? { 'retry-after': String(error.retryAfter ?? 5) } : undefined
  // A line for a terminal stays as it is.
  const said = error.message.startsWith('kubectl ')
    ? error.message
    : `${error.message[0]?.toUpperCase()}${error.message.slice(1)}.`
  return new PublicError(code[error.kind], { message: said, ...(headers && { headers }) })
}

async function readForm(c: Context<Env>, { formKey }: Sessions, session: Session) {
  if (c.req.method !== 'POST') return undefined
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded')
    throw new PublicError('unsupported_media_type', {
      message: 'Content-Type must be application/x-www-form-urlencoded.',
    })
  const form = new URLSearchParams((await readBody(c, LARGEST_FORM)).toString())
  if (!isFormToken(form.get('form') ?? '', formKey, session.id, new URL(c.req.url).pathname))
    throw new PublicError('forbidden', { message: 'This form is of another session; reload the page.' })
  return form
}

interface PageOptions extends AppOptions, Pick<Visit, 'tokens' | 'logins' | 'typed'> {}

const findOrigin = (c: Context, origin: string | undefined): string => origin ?? `http://${c.req.header('host')}`

async function servePage(c: Context<Env>, page: Page, options: PageOptions, frameOf: FrameOf): Promise<Response> {
  const { places, sessions } = options
  const session = c.get('session') as Session
  const form = chooseForm(c)
  const given = await readForm(c, sessions, session)
  const isPage = form !== 'json'
  const world = (await waitBriefly(places.world(session.viewer), isPage)) ?? places.lastWorld(session.viewer)
  if (world === undefined) return answer(c, stillAsking, emptyWorldNote, frameOf)
  if (form === 'json' && world.stale !== undefined) throw new PlaceError('away', world.stale)
  const visitWith = ({ signal, onProgress }: Pick<Visit, 'signal' | 'onProgress'>): Visit => ({
    c,
    signal,
    onProgress,
    places,
    session,
    world,
    prometheus: options.prometheus,
    tokens: options.tokens,
    logins: options.logins,
    typed: options.typed,
    origin: findOrigin(c, options.origin),
    now: Date.now(),
    isPage,
    query: (name) => c.req.query(name),
    param: (name) => c.req.param(name) ?? '',
    form: given,
    formToken: (path) => formToken(sessions.formKey, session.id, path),
  })
  if (form === 'view' && given !== undefined)
    return streamAnswer(c, async (running) => {
      const { content } = await page(visitWith(running))
      return { tree: contentTrees([notes(world), content]) }
    })
  const visit = visitWith({ signal: c.req.raw.signal, onProgress: () => undefined })
  return answer(c, await page(visit), world, frameOf)
}

/**
 * Answers a form that the script has sent with JSON lines: `{progress}` while the work runs, then `{tree}` or
 * `{error}`. The work is aborted if the browser disconnects.
 */
function streamAnswer(
  c: Context<Env>,
  work: (running: Pick<Visit, 'signal' | 'onProgress'>) => Promise<object>,
): Response {
  const stop = new AbortController()
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      const write = (value: object) => {
        if (!stop.signal.aborted) controller.enqueue(Buffer.from(`${JSON.stringify(value)}\n`))
      }
      try {
        write(await work({ signal: stop.signal, onProgress: (progress) => write({ progress: visible(progress) }) }))
      } catch (error) {
        write({ error: errorFrom(error, c.get('log')?.()).message })
      }
      if (!stop.signal.aborted) controller.close()
    },
    cancel: () => stop.abort(),
  })
  c.header('content-type', 'application/jsonl')
  return c.body(body)
}

const stillAsking: Answer = {
  title: 'Still asking',
  facts: {},
  content: [
    h('h1', {}, 'Still asking the cluster'),
    h('p', { 'data-pending': true }, 'The API server is slow. This page updates when it answers.'),
  ],
}
type WorldNotes = Omit<World, 'objects'>

const emptyWorldNote: WorldNotes = { asOf: 0, cut: false, notReadable: [], namespaces: [] }

function answer(
  c: Context<Env>,
  { title, facts, content, isLive = true, status = 200, csv, goTo }: Answer,
  world: WorldNotes,
  frameOf: FrameOf,
): Response {
  const { asOf, cut, notReadable } = world
  const form = chooseForm(c)
  if (csv !== undefined && form === 'page') {
    c.header('content-disposition', 'attachment; filename="usage.csv"')
    c.header('content-type', 'text/csv; charset=utf-8')
    return c.body(csv)
  }
  if (goTo !== undefined) c.header('refresh', `0;url=${goTo}`)
  if (form === 'page') {
    const body = pageText(frameOf(c, title, isLive && c.req.method === 'GET'), [notes(world), content])
    return c.html(body, status)
  }
  const value =
    form === 'view'
      ? { title: pageTitle(title), tree: contentTrees([notes(world), content]) }
      : { facts, asOf: new Date(asOf).toISOString(), cut, notReadable }
  const etag = `"${hash('sha256', JSON.stringify(form === 'view' ? value : { facts, cut, notReadable }), 'hex').slice(0, 32)}"`
  c.header('etag', etag)
  if (c.req.header('if-none-match') === etag) return c.body(null, 304)
  c.header('content-type', form === 'view' ? VIEW : 'application/json')
  return c.body(JSON.stringify(value), status)
}

const contentTrees = (content: Child) => toTrees(h('main', {}, content))

/** Returns the notes that facts are old, cut, or incomplete. */
function notes({ asOf, cut, notReadable, namespaces, stale, needsNamespaces }: WorldNotes): Child {
  const time = new Date(asOf).toISOString().slice(11, 19)
  return [
    stale !== undefined && note('warn', h('p', {}, `These facts are of ${time} UTC: ${stale}.`)),
    cut && note('warn', h('p', {}, 'The lists are too long to be read completely: some objects are missing here.')),
    notReadable.length > 0 && note('', h('p', {}, notReadableText(notReadable, namespaces))),
    needsNamespaces === true && note('', namespaceForm()),
  ]
}

function notReadableText(notReadable: readonly string[], namespaces: readonly string[]): string {
  const names = `${notReadable.slice(0, 20).join(', ')}${notReadable.length > 20 ? ' …' : ''}`
  if (namespaces.length === 0) return `You may not read these kinds: ${names}.`
  return `${notReadable.length} of ${notReadable.length + namespaces.length} namespaces can’t be read by you: ${names}.`
}

const namespaceForm = (): Child => [
  h('p', {}, 'You may not list namespaces. Type those that you want to see, separated by commas.'),
  h(
    'form',
    { action: '/namespaces', method: 'get', class: 'filter' },
    labelled('Namespaces', h('input', { name: 'names', required: true, maxlength: 2_000 })),
    h('button', {}, 'Show'),
  ),
]

/** Returns the link target of a "not found" page: the list of the namespace, or the first page. */
const parentPath = (path: string): string =>
  path.startsWith('/ns/') ? `/workloads?ns=${path.split('/')[2] ?? ''}` : '/'

/** Returns the links of an error page: to a login if a new session may help, else to pages that this session may see. */
function errorLinks(c: Context, code: ErrorCode, { loginPath }: Sessions): readonly Child[] {
  const hasSession = c.get('session') !== undefined
  if (loginPath !== undefined && (!hasSession || code === 'cluster_refused_token'))
    return [h('a', { class: 'button', href: loginPath }, 'Log in again')]
  if (!hasSession) return []
  const parent = parentPath(c.req.path)
  return [
    parent !== '/' && h('a', { href: parent }, 'Workloads of this namespace'),
    h('a', { href: '/' }, 'Home'),
    h('a', { href: '/help' }, 'Help'),
  ]
}

function errorTitle(c: Context, code: ErrorCode): string {
  if (code === 'forbidden' && c.get('session') === undefined) return 'Not logged in'
  return TITLES[code] ?? 'This did not work'
}

function errorPage(c: Context, error: PublicError, frameOf: FrameOf, sessions: Sessions): Response {
  for (const [name, value] of Object.entries(error.headers ?? {})) c.header(name, value)
  const { code, message, details } = error
  if (chooseForm(c) !== 'page')
    return c.json({ error: code, message, ...(details && { details }) }, error.status as 400)
  const id = c.get('requestId') as string | undefined
  const [title, links] = [errorTitle(c, code), errorLinks(c, code, sessions)]
  const content = [
    h('h1', {}, title),
    h('p', { dir: 'auto' }, message),
    code === 'forbidden' && message.startsWith('kubectl') && h('p', {}, 'This is the missing right.'),
    links.length > 0 && h('div', { class: 'acts' }, links),
    h(
      'p',
      { class: 'soft small' },
      'Error ',
      h('code', {}, code),
      id !== undefined && [', request ', h('code', {}, id)],
    ),
  ]
  return c.html(pageText(frameOf(c, title, false), content), error.status as 400)
}

const TITLES: Readonly<Partial<Record<ErrorCode, string>>> = {
  not_found: 'Not found',
  forbidden: 'Not allowed',
  forbidden_host: 'Not from here',
  session_ended: 'The session has ended',
  cluster_refused_token: 'The cluster does not accept this token',
  cluster_unavailable: 'The cluster can’t be reached',
}
