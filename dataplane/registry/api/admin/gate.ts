import { hash } from 'node:crypto'
import type { Context } from 'hono'
import { parseDuration } from '../../../../crds/settings/duration.ts'
import { PublicError } from '../../../server/errors.ts'
import { type Actor, hasRole } from '../../authz/access.ts'
import { decodeGateCursor, encodeGateCursor, type GatePosition } from '../../catalog/cursor.ts'
import type { RegistryRecord } from '../../store/database/records.ts'
import type { GatePage } from '../../store/read/gate-page.ts'
import { answerText } from '../request/caller-memory.ts'
import type { Api, Operation, RegistryEnv } from '../request/operation.ts'
import { QueryFindings } from '../request/query.ts'
import { cursor, gateAnswer, gateWait, registryName } from '../schemas/admin.ts'
import { readParam } from './reach.ts'

/** The longest wait: proxies cut connections that are silent for longer. */
const LONGEST_WAIT_MS = 60_000
/** The interval at which a waiting request checks the revision in memory. */
const CHECK_MS = 200
const WAITING_BYTES = 16 * 1024
/** If the registry keeps changing during a read, the last of these attempts counts. */
const ATTEMPTS = 5

interface GateState {
  /** The revision of all that an answer shows: entries, claims and the mode of authorization. */
  readonly revision: string
  readonly registry: RegistryRecord
  readonly actor: Actor
}

/**
 * Builds `GET /v1/registries/{registry}/gate`, by which gateways get the servers of a registry with their claims. They
 * compare the claims with those of their own callers, so access needs a role, and no claims.
 */
export function gateOperation(api: Api): Operation {
  const reading = new Map<string, Promise<GatePage | undefined>>()

  /** Reads a page once for all concurrent requests: after a change every gateway asks for it. */
  function readSharedPage(
    { name, revision }: RegistryRecord,
    after: GatePosition | undefined,
  ): Promise<GatePage | undefined> {
    const key = JSON.stringify([name, revision, after])
    let page = reading.get(key)
    if (page === undefined) {
      page = api.reader.gate(name, after).finally(() => reading.delete(key))
      reading.set(key, page)
    }
    return page
  }

  /** Reads a page, and the state of the registry that belongs to it. */
  async function readPage(c: Context<RegistryEnv>, state: GateState, after: GatePosition | undefined) {
    let current = state
    for (let left = ATTEMPTS; ; left--) {
      const page = await readSharedPage(current.registry, after)
      if (page === undefined) throw new PublicError('not_found')
      if (left === 0 || page.revision === current.registry.revision) return { page, state: current }
      await api.reader.catchUp()
      current = await readState(api, c)
    }
  }

  return {
    id: 'readGate',
    tag: 'registries',
    role: 'readGates',
    method: 'get',
    path: '/v1/registries/{registry}/gate',
    parameters: { registry: registryName },
    query: { cursor, wait: gateWait },
    summary: 'Lists the servers of a registry with their claims, for gateways that serve what the catalog shows.',
    answers: {
      200: {
        description:
          'A page of at most 8 MiB, with an ETag. If a page has another revision than the page before, start again at the first page.',
        schema: gateAnswer,
      },
      304: { description: 'The registry still has the revision in If-None-Match, after `wait` too.' },
    },
    errors: ['not_found', 'invalid_request'],
    async handle(c) {
      const name = readParam(c, 'registry')
      const findings = new QueryFindings()
      const cursorText = c.req.query('cursor') || undefined
      const after = cursorText === undefined ? undefined : decodeGateCursor(cursorText, name)
      if (cursorText !== undefined && after === undefined) findings.add('cursor', 'is not a cursor of this gate')
      const waitMs = readWait(c.req.query('wait'), findings)
      findings.throwIfAny()

      const known = parseTags(c.req.header('if-none-match'))
      let state = await readState(api, c)
      if (waitMs > 0 && isKnown(known, state)) state = await waitForChange(api, c, state, waitMs)
      if (isKnown(known, state)) return c.body(null, 304, buildHeaders(state))
      const { page, state: shown } = await readPage(c, state, after)
      return answerPage(c, shown, page)
    },
  }
}

/** Reads the state of the registry that the path names. Throws a PublicError: `not_found`, or `forbidden_role`. */
async function readState({ reader, identity }: Api, c: Context<RegistryEnv>): Promise<GateState> {
  const registry = await reader.registry(readParam(c, 'registry'))
  // The rules may have changed since the request began to wait.
  const actor = identity.actors()(c.var.actor.caller)
  if (!hasRole(actor, 'readGates')) throw new PublicError('forbidden_role')
  if (registry === undefined) throw new PublicError('not_found')
  const { mode, unlabelled } = actor
  const parts = JSON.stringify([registry.revision, registry.claims, mode, unlabelled])
  return { revision: hash('sha256', parts, 'base64url').slice(0, 22), registry, actor }
}

/** Waits until the revision changes, the time is over, the client has gone, or the registry stops. */
async function waitForChange(api: Api, c: Context<RegistryEnv>, first: GateState, ms: number): Promise<GateState> {
  const { held } = c.var
  held.demand(held.bytes + WAITING_BYTES)
  const until = performance.now() + ms
  const gone = c.req.raw.signal
  let state = first
  while (!gone.aborted && !api.ending.aborted) {
    const left = until - performance.now()
    if (left <= 0) break
    await new Promise((resolve) => setTimeout(resolve, Math.min(left, CHECK_MS)))
    const actor = api.identity.actors()(c.var.actor.caller)
    const registry = await api.reader.registry(first.registry.name)
    if (registry === state.registry && actor === state.actor) continue
    state = await readState(api, c)
    if (state.revision !== first.revision) break
  }
  return state
}

/** Reads `wait` in milliseconds; 0 if it is absent or empty. */
function readWait(text: string | undefined, findings: QueryFindings): number {
  if (!text) return 0
  try {
    return Math.min(parseDuration(text), LONGEST_WAIT_MS)
  } catch {
    findings.add('wait', 'must be a duration such as 30s')
    return 0
  }
}

const formatEtag = (revision: string) => `"${revision}"`

const buildHeaders = ({ revision }: GateState) => ({
  etag: formatEtag(revision),
  'cache-control': 'private, no-cache',
  vary: 'Authorization',
})

/** Reads the tags of If-None-Match (RFC 9110 section 13.1.2, weak comparison). */
const parseTags = (header: string | undefined): readonly string[] =>
  (header ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))

const isKnown = (known: readonly string[], { revision }: GateState) =>
  known.includes(formatEtag(revision)) || known.includes('*')

function answerPage(c: Context<RegistryEnv>, state: GateState, { rows, end }: GatePage): Response {
  const { registry, actor, revision } = state
  const head = JSON.stringify({
    revision,
    mode: actor.mode,
    claims: registry.claims,
    // Otherwise a gateway would open a registry without claims, which the rules keep closed.
    ...(actor.mode === 'full' && actor.unlabelled === 'deny' && { unlabelled: 'deny' }),
    ...(end !== undefined && { nextCursor: encodeGateCursor(end, registry.name) }),
  })
  return answerText(c, `${head.slice(0, -1)},"servers":[${rows.join()}]}`, buildHeaders(state))
}
