import type { Hono } from 'hono'
import { catalog, catalogEntry } from './catalog-pages.ts'
import { changes, changesHome } from './changes-pages.ts'
import { access, accessHome, connect, help, log, map, source, workloadMap } from './object-pages.ts'
import { home, workload, workloads } from './pages.ts'
import { tools, tryTool } from './try-pages.ts'
import { usage, usageHome } from './usage-pages.ts'
import type { Page } from './visit.ts'
import { loginCallback } from './workload-logins.ts'

const OBJECT = '/ns/:ns/:short/:name'

export const routes: Readonly<Record<string, Page>> = {
  '/': home,
  '/workloads': workloads,
  '/map': map,
  '/access': accessHome,
  '/changes': changesHome,
  '/usage': usageHome,
  '/catalog': catalog,
  '/catalog/:registry': catalog,
  '/catalog/:registry/:namespace/:server': catalogEntry,
  '/client/callback': loginCallback,
  '/help': help,
  '/help/:page': help,
  [OBJECT]: workload,
  [`${OBJECT}/tools`]: tools,
  [`${OBJECT}/tools/:tool`]: tryTool,
  [`${OBJECT}/map`]: workloadMap,
  [`${OBJECT}/access`]: access,
  [`${OBJECT}/changes`]: changes,
  [`${OBJECT}/usage`]: usage,
  [`${OBJECT}/connect`]: connect,
  [`${OBJECT}/yaml`]: source,
  [`${OBJECT}/log`]: log,
}

/** The schema of every page's JSON. */
const page = {
  type: 'object',
  required: ['facts', 'asOf', 'cut', 'notReadable'],
  properties: {
    facts: { type: 'object', description: 'What the page shows.' },
    asOf: { type: 'string', format: 'date-time' },
    cut: { type: 'boolean', description: 'A list was too long to be read whole.' },
    notReadable: { type: 'array', items: { type: 'string' }, description: 'What the viewer may not read.' },
  },
}

const error = {
  type: 'object',
  required: ['error', 'message'],
  properties: { error: { type: 'string' }, message: { type: 'string' } },
}

const json = (name: string) => ({
  content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } },
})

/** Serves the description of the pages as OpenAPI 3.1. */
export function openApiRoute(app: Hono): void {
  const described = Object.fromEntries(
    Object.keys(routes).map((path) => {
      const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => name as string)
      const parameters = names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))
      const responses = {
        200: { description: 'The facts.', ...json('Page') },
        304: { description: 'Nothing has changed since `If-None-Match`.' },
        default: { description: 'An error of the table.', ...json('Error') },
      }
      return [path.replaceAll(/:(\w+)/g, '{$1}'), { get: { parameters, responses } }]
    }),
  )
  const document = {
    openapi: '3.1.0',
    info: { title: 'Portico console', version: '1' },
    paths: described,
    components: { schemas: { Page: page, Error: error } },
  }
  app.get('/openapi.json', (c) => c.json(document))
}
