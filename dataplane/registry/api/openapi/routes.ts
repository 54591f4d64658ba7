import { Hono } from 'hono'
import { stringify } from 'yaml'
import { PublicError } from '../../../server/errors.ts'
import type { Operation, RegistryEnv } from '../request/operation.ts'
import { openApi } from './document.ts'

/** `/openapi.json` and `/openapi.yaml`: open to everybody, and to pages of every origin. */
export function openApiRoutes(operations: readonly Operation[], version: string): Hono<RegistryEnv> {
  const description = openApi(operations, version)
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
