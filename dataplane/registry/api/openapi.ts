import { Hono } from 'hono'
import type { TSchema } from 'typebox'
import { stringify } from 'yaml'
import { type ErrorCode, errorTable, PublicError } from '../../server/errors.ts'
import type { Operation, RegistryEnv } from './request/operation.ts'

/** The errors of every operation. */
const ANYWHERE: readonly ErrorCode[] = ['unauthenticated', 'share_exceeded', 'internal', 'unavailable']
const WITH_BODY: readonly ErrorCode[] = ['parse_error', 'invalid_request', 'too_large', 'unsupported_media_type']

const TAGS = {
  catalog: 'The entries of registries: the MCP registry API v0.1, and skills.',
  sources: 'The sources of entries.',
  registries: 'Registries: what consumers read under one name.',
  entries: 'Entries that are published to this server.',
  identity: 'The identity of the caller, and what they may see.',
} as const

const errorSchema = {
  type: 'object',
  required: ['error', 'message'],
  properties: {
    error: { type: 'string', description: 'Stable: programs distinguish errors by it.' },
    message: { type: 'string', description: 'For people.' },
    details: {
      type: 'array',
      description: 'All findings in the request.',
      items: {
        type: 'object',
        required: ['pointer', 'message'],
        properties: {
          pointer: { type: 'string', description: 'JSON pointer into the body, or `/` and the name of a parameter.' },
          message: { type: 'string' },
        },
      },
    },
  },
}

/** Our own keywords in schemas, which are not published. */
const OWN: ReadonlySet<string> = new Set(['readBy', 'says'])

/** Creates the routes of `/openapi.json` and `/openapi.yaml`, which everybody may read, also pages of any origin. */
export function openApiRoutes(operations: readonly Operation[], version: string): Hono<RegistryEnv> {
  const description = describeApi(operations, version)
  const json = JSON.stringify(description)
  let yaml: string | undefined
  const headers = (type: string) => ({
    'content-type': type,
    'access-control-allow-origin': '*',
    'cache-control': 'no-cache',
  })
  return new Hono<RegistryEnv>()
    .get('/openapi.json', (c) => c.body(json, 200, headers('application/json')))
    .get('/openapi.yaml', (c) => {
      yaml ??= stringify(description, { aliasDuplicateObjects: false })
      return c.body(yaml, 200, headers('application/yaml'))
    })
    .on('ALL', ['/openapi.json', '/openapi.yaml'], () => {
      throw new PublicError('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
    })
}

function describeApi(operations: readonly Operation[], version: string): object {
  const paths = Object.fromEntries(
    [...Map.groupBy(operations, ({ path }) => path)].map(([path, onPath]) => [
      path,
      Object.fromEntries(onPath.map((operation) => [operation.method, describeOperation(operation)])),
    ]),
  )
  return {
    openapi: '3.1.0',
    info: {
      title: 'Portico registry',
      version,
      description: 'A catalog of MCP servers and skills, with access control.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A token of one of the configured issuers.' },
      },
      schemas: { Error: errorSchema },
    },
    security: [{ bearer: [] }, {}],
  }
}

function describeOperation(operation: Operation): object {
  const { id, tag, summary, parameters = {}, query = {}, body, answers } = operation
  return {
    operationId: id,
    tags: [tag],
    summary,
    parameters: [
      ...Object.entries(parameters).map(([name, schema]) => describeParameter('path', name, schema)),
      ...Object.entries(query).map(([name, schema]) => describeParameter('query', name, schema)),
    ],
    ...(body !== undefined && {
      requestBody: { required: true, content: { 'application/json': { schema: publishedSchema(body) } } },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, { description, schema }]) => [
          status,
          {
            description,
            ...(schema !== undefined && { content: { 'application/json': { schema: publishedSchema(schema) } } }),
          },
        ]),
      ),
      ...describeErrors(operation),
    },
  }
}

function describeParameter(location: 'path' | 'query', name: string, schema: TSchema): object {
  const { description, ...rest } = publishedSchema(schema) as { description?: string }
  return {
    name,
    in: location,
    required: location === 'path',
    ...(description !== undefined && { description }),
    schema: rest,
  }
}

function describeErrors({ errors, body, role }: Operation): Record<string, object> {
  const codes = new Set<ErrorCode>([
    ...errors,
    ...(body === undefined ? [] : WITH_BODY),
    ...(role === undefined ? [] : (['forbidden_role'] as const)),
    ...ANYWHERE,
  ])
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].http)
  return Object.fromEntries(
    [...byStatus].map(([status, same]) => [
      String(status),
      {
        description: same.map((code) => `\`${code}\`: ${errorTable[code].text}`).join('\n\n'),
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    ]),
  )
}

/** Returns a schema as it is published: `exactlyOne`, which a check of ours reports, becomes `oneOf`. */
function publishedSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(publishedSchema)
  if (typeof schema !== 'object' || schema === null) return schema
  const { exactlyOne, ...rest } = schema as { exactlyOne?: readonly string[] }
  const rule = exactlyOne === undefined ? {} : { oneOf: exactlyOne.map((name) => ({ required: [name] })) }
  return Object.fromEntries(
    Object.entries({ ...rest, ...rule })
      .filter(([key]) => !OWN.has(key) && !key.startsWith('x-kubernetes-') && !key.startsWith('~'))
      .map(([key, value]) => [key, publishedSchema(value)]),
  )
}
