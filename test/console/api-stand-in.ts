/** A stand-in for an API server that lists objects. Tests set how slow it is, what it contains and whether it answers. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { kinds } from '../../crds/index.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { endFileOnError } from '../support/or-fail.ts'

export interface ApiStandIn {
  readonly url: string
  /** Each request so far: its path and its token. */
  readonly requests: { readonly path: string; readonly token: string }[]
  objects: readonly KubernetesObject[]
  /** Returns the namespaces that a token may read; undefined: all. */
  reach: (token: string) => readonly string[] | undefined
  /** The status and headers to answer instead of lists; undefined: lists as usual. Status 0 ends the connection. */
  instead: { readonly status: number; readonly headers?: Readonly<Record<string, string>> } | undefined
  /** True if callers may not ask for their own rights. */
  isMute: boolean
  /** Holds lists from now on; the returned function answers them and ends the hold. */
  hold(): () => void
  close(): Promise<void>
}

const PAGE = 500
const plurals = new Map(Object.values(kinds).map(({ plural, kind }) => [plural, kind]))

/** The path of a list of one kind, in one namespace or all, in pages as an API server returns them. */
const LIST = /^\/apis\/portico\.dev\/v1beta1\/(?:namespaces\/([^/]+)\/)?([a-z]+)$/

export async function startApiStandIn(objects: readonly KubernetesObject[] = []): Promise<ApiStandIn> {
  let waiting: (() => void)[] | undefined
  const server = createServer((request, response) => {
    const path = request.url ?? '/'
    const token = (request.headers.authorization ?? '').replace('Bearer ', '')
    found.requests.push({ path, token })
    const give = endFileOnError(() => answer(request, response, token))
    const isReview = path.includes('/selfsubject')
    if (waiting === undefined || isReview) give()
    else waiting.push(give)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const found: ApiStandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    objects,
    reach: () => undefined,
    instead: undefined,
    isMute: false,
    hold() {
      waiting = []
      return () => {
        const pending = waiting ?? []
        waiting = undefined
        for (const give of pending) give()
      }
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  async function answer(request: IncomingMessage, response: ServerResponse, token: string): Promise<void> {
    const send = (status: number, body: object, headers: Readonly<Record<string, string>> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      response.end(JSON.stringify(body))
    }
    const { pathname, searchParams } = new URL(request.url ?? '/', found.url)
    const may = found.reach(token)
    if (pathname.endsWith('/selfsubjectreviews'))
      return send(201, { status: { userInfo: { username: token.split('.')[0] } } })
    if (pathname.endsWith('/selfsubjectaccessreviews')) {
      if (found.isMute) return send(403, { reason: 'Forbidden', message: 'reviews are forbidden' })
      const { spec } = JSON.parse(await readText(request)) as {
        spec: { resourceAttributes: { namespace: string } }
      }
      return send(201, { status: { allowed: may?.includes(spec.resourceAttributes.namespace) ?? true } })
    }
    if (found.instead?.status === 0) return void response.destroy()
    if (found.instead) return send(found.instead.status, { message: 'not now' }, found.instead.headers)
    if (pathname === '/api/v1/namespaces') {
      const names = new Set(found.objects.map(({ metadata }) => metadata.namespace ?? 'default'))
      return send(200, { metadata: {}, items: [...names].map((name) => ({ metadata: { name } })) })
    }
    const [, namespace, plural = ''] = LIST.exec(pathname) ?? []
    if (!plurals.has(plural)) return send(200, { metadata: {}, items: [] })
    if (may !== undefined && (namespace === undefined || !may.includes(namespace)))
      return send(403, { reason: 'Forbidden', message: `${plural} is forbidden` })
    const all = found.objects.filter(
      ({ kind, metadata }) =>
        kind === plurals.get(plural) && (namespace === undefined || metadata.namespace === namespace),
    )
    const start = Number(searchParams.get('continue') ?? 0)
    const next = start + PAGE < all.length ? String(start + PAGE) : undefined
    return send(200, { metadata: { continue: next }, items: all.slice(start, start + PAGE) })
  }
  return found
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
