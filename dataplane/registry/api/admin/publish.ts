import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import { isEmpty } from '../../authz/claims.ts'
import { mayPublishWith, publishFault } from '../../authz/publish.ts'
import { parseExactly } from '../../catalog/parse-exactly.ts'
import { readServer, readSkill } from '../../sources/format/read-entry.ts'
import type { SourceRecord } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { Operation } from '../request/operation.ts'
import { publishAnswer, publishBody } from '../schemas/admin.ts'

interface Documents {
  readonly server?: object
  readonly skill?: object
}

/** Publishing: a new version of a server or a skill in a managed source. */
export function publishOperation({ reader, writer, limits }: Api): Operation {
  const read = bodyReader(publishBody, () => limits().bodyBytes, exactlyOne)

  /** Where it goes. A source that the actor may not know of is one that isn't there. */
  async function sourceFor(actor: Actor, named: string | undefined): Promise<SourceRecord | PublicError> {
    const reachable = (await reader.sources()).filter(({ claims }) => mayReach(actor, claims))
    if (named !== undefined) {
      const source = reachable.find(({ name }) => name === named)
      if (source === undefined) return new PublicError('not_found')
      return source.config.managed === undefined ? new PublicError('source_not_managed') : source
    }
    const [first, second] = reachable.filter(({ config }) => config.managed !== undefined)
    if (first === undefined) return new PublicError('no_managed_source')
    return second === undefined ? first : new PublicError('source_required')
  }

  return {
    id: 'publish',
    tag: 'entries',
    role: 'manageEntries',
    method: 'post',
    path: '/v1/entries',
    summary: 'Publishes a version of a server or a skill.',
    body: publishBody,
    answers: {
      200: { description: 'This very document with these claims was there already.', schema: publishAnswer },
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
    async handle(c) {
      const { actor } = c.var
      const { value, text } = await read(c)
      const { claims = {} } = value
      const document = parseExactly(text) as Documents
      const entry =
        document.server === undefined
          ? readSkill(document.skill, undefined, '/skill')
          : readServer(document.server, undefined, '/server')
      if ('message' in entry) throw invalid([entry])

      if (!mayPublishWith(actor, claims)) throw new PublicError('claims_not_subset')
      const source = await sourceFor(actor, value.source)
      if (source instanceof PublicError)
        throw isEmpty(claims) && actor.mode !== 'anonymous' ? new PublicError('claims_required') : source
      const { type, name } = entry
      const existing = (await reader.entriesNamed(type, name)).find((other) => other.source === source.name)
      const fault = publishFault(actor, claims, existing?.claims)
      if (fault !== undefined) throw new PublicError(fault)

      const { version, title, description, document: documentText } = entry
      const outcome = await writer.publish({
        source: source.name,
        type,
        name,
        version,
        title,
        description,
        document: documentText,
        claims,
        expectSource: source.claims,
        mostBytes: limits().managedBytes,
        needsClaims: actor.mode !== 'anonymous',
        at: now(),
      })
      if (outcome === 'no_source') throw new PublicError('not_found')
      if (outcome === 'source_full')
        throw new PublicError('conflict', {
          message: 'The source holds as many bytes as it may (limits.managedBytes).',
        })
      if (outcome === 'source_changed')
        throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
      if (outcome !== 'created' && outcome !== 'unchanged') throw new PublicError(outcome)
      const rest = JSON.stringify({ claims, source: source.name }).slice(1)
      return c.body(`{"${type}":${documentText},${rest}`, outcome === 'created' ? 201 : 200, {
        'content-type': 'application/json',
      })
    },
  }
}

function exactlyOne({ server, skill }: Documents): readonly ErrorDetail[] {
  return (server === undefined) === (skill === undefined)
    ? [{ pointer: '', message: 'must have exactly one of server and skill' }]
    : []
}
