import type { Static } from 'typebox'
import { type ClaimsMap, isEmpty } from '../../../identity/claims.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { type Actor, mayPublishWith, mayReach, publishFault } from '../../authz/access.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { parseExactly } from '../../catalog/json.ts'
import { readServer, readSkill } from '../../sources/format/read-entry.ts'
import type { PublishOutcome, SourceRecord } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now, type Operation, type OperationDescription } from '../request/operation.ts'
import { publishAnswer, publishBody } from '../schemas/admin.ts'

type Documents = Pick<Static<typeof publishBody>, 'server' | 'skill'>

const description = {
  id: 'publish',
  tag: 'entries',
  role: 'manageEntries',
  method: 'post',
  path: '/v1/entries',
  summary: 'Publishes a version of a server or a skill.',
  body: publishBody,
  answers: {
    200: { description: 'The same document with the same claims existed already.', schema: publishAnswer },
    201: { description: 'Published.', schema: publishAnswer },
  },
  errors: [
    'claims_required',
    'source_required',
    'source_not_managed',
    'claims_not_subset',
    'not_found',
    'claims_mismatch',
    'version_exists',
    'no_managed_source',
    'conflict',
  ],
} as const satisfies OperationDescription

/** Builds the operation that publishes a version of a server or skill to a managed source. */
export function publishOperation(api: Api): Operation {
  const read = bodyReader(publishBody, api, checkExactlyOne)

  return {
    ...description,
    async handle(c) {
      const { actor } = c.var
      const { value, text } = await read(c)
      const { claims = {} } = value
      const entry = buildEntry(parseExactly(text) as Documents)
      if (!mayPublishWith(actor, claims)) throw new PublicError('claims_not_subset')
      const source = await findSource(api, actor, value.source)
      if (source instanceof PublicError) throw needsClaims(actor, claims) ? new PublicError('claims_required') : source
      await checkClaims(api, actor, { entry, claims, source })

      const isNew = await publishEntry(api, actor, { entry, claims, source })
      const rest = JSON.stringify({ claims, source: source.name }).slice(1)
      return c.body(`{"${entry.type}":${entry.document},${rest}`, isNew ? 201 : 200, {
        'content-type': 'application/json',
      })
    },
  }
}

function checkExactlyOne({ server, skill }: Documents): readonly ErrorDetail[] {
  return (server === undefined) === (skill === undefined)
    ? [{ pointer: '', message: 'must have exactly one of server and skill' }]
    : []
}

function buildEntry({ server, skill }: Documents): IncomingVersion {
  const entry = server === undefined ? readSkill(skill, undefined, '/skill') : readServer(server, undefined, '/server')
  if ('message' in entry) throw invalid([entry])
  return entry
}

/**
 * Finds the source to publish to: the named one, or the only managed one. Returns the reason if there is none. The
 * claims of a managed source say who manages it, not who publishes. A source of another type counts as absent if the
 * actor may not know of it.
 */
async function findSource(
  { reader }: Api,
  actor: Actor,
  name: string | undefined,
): Promise<SourceRecord | PublicError> {
  const sources = await reader.sources()
  if (name !== undefined) {
    const source = sources.find((one) => one.name === name)
    if (source?.config.managed !== undefined) return source
    const isKnown = source !== undefined && mayReach(actor, source.claims)
    return new PublicError(isKnown ? 'source_not_managed' : 'not_found')
  }
  const [first, second] = sources.filter(({ config }) => config.managed !== undefined)
  if (first === undefined) return new PublicError('no_managed_source')
  return second === undefined ? first : new PublicError('source_required')
}

const needsClaims = (actor: Actor, claims: ClaimsMap) => isEmpty(claims) && actor.mode !== 'anonymous'

interface PublishRequest {
  readonly entry: IncomingVersion
  readonly claims: ClaimsMap
  readonly source: SourceRecord
}

/** Checks the claims, also against those of the entry, if it exists already. */
async function checkClaims({ reader }: Api, actor: Actor, { entry, claims, source }: PublishRequest): Promise<void> {
  const named = await reader.entriesNamed(entry.type, entry.name)
  const existing = named.find((other) => other.source === source.name)
  const fault = publishFault(actor, claims, existing?.claims)
  if (fault !== undefined) throw new PublicError(fault)
}

async function publishEntry(
  { writer, limits }: Api,
  actor: Actor,
  { entry, claims, source }: PublishRequest,
): Promise<boolean> {
  const { type, name, version, title, description, document } = entry
  const outcome = await writer.publish({
    source: source.name,
    type,
    name,
    version,
    title,
    description,
    document,
    claims,
    mostBytes: limits().managedBytes,
    needsClaims: actor.mode !== 'anonymous',
    at: now(),
  })
  if (outcome === 'created' || outcome === 'unchanged') return outcome === 'created'
  throw buildRefusal(outcome)
}

function buildRefusal(outcome: Exclude<PublishOutcome, 'created' | 'unchanged'>): PublicError {
  switch (outcome) {
    case 'no_source':
      return new PublicError('not_found')
    case 'source_full':
      return new PublicError('conflict', { message: 'The source is full (limits.managedBytes).' })
    case 'source_changed':
      return new PublicError('conflict', { message: 'The source was changed meanwhile.' })
    default:
      return new PublicError(outcome)
  }
}
