/** Checks that a kind's schema, the configuration file and the admin API accept the same values for each setting. */
import type { TSchema } from 'typebox'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { MCPRegistry } from '../../crds/index.ts'
import { registryConfig } from '../../crds/settings/registry/registry-config.ts'
import { list, object } from '../../crds/settings/schema.ts'
import type { SchemaNode } from '../../crds/walk.ts'
import { checkGateway } from '../../dataplane/config/check/gateway.ts'
import { checkRegistry } from '../../dataplane/config/check/registry.ts'
import { gatewayConfigSchema } from '../../dataplane/config/gateway.ts'
import { ConfigError } from '../../dataplane/config/load.ts'
import { configParser } from '../../dataplane/config/read/parse.ts'
import { apiSourceSchema, registryConfigSchema } from '../../dataplane/config/registry.ts'
import { compile } from '../../dataplane/config/schema-violations.ts'
import { fillWorld, type KubernetesObject } from '../../operator/model/index.ts'
import { fieldCorpus } from '../support/operator/field-corpus.ts'
import { configText, planWorld, worldContent } from '../support/operator/plans.ts'
import { type Block, differences } from '../support/operator/same-settings.ts'

const content = worldContent(fieldCorpus)
const plans = planWorld(fillWorld(content))

/** Checks a text by the schema alone, as a parser does before it finds the lines of what it refuses. */
function bySchema(schema: TSchema): (text: string) => void {
  const violations = compile(schema)
  return (text) => {
    const found = violations(JSON.parse(text))
    if (found.length > 0) throw new ConfigError(found)
  }
}

const gatewayFile = {
  parse: bySchema(gatewayConfigSchema),
  parseWithRules: configParser(gatewayConfigSchema, checkGateway),
}
const registryFile = {
  parse: bySchema(registryConfigSchema),
  parseWithRules: configParser(registryConfigSchema, checkRegistry),
}

function buildObject(kind: string, name: string): KubernetesObject {
  const found = [...content.objects].find((one) => one.kind === kind && one.metadata.name === name)
  if (found === undefined) throw new TypeError(`${kind} ${name} is not in the corpus`)
  return found
}

/** Returns a block of an object in the corpus, and the block in the configuration of its workload. */
const buildBlock = (
  [kind, name, from]: readonly [kind: string, name: string, from: string],
  [workload, to]: readonly [workload: string, to: string],
): Block => ({
  object: buildObject(kind, name),
  from,
  file: parse(configText(plans.get(workload))),
  to,
  ...(workload.startsWith('MCPRegistry/') ? registryFile : gatewayFile),
})

/** Returns the sources that a caller of the admin API may create: none of them names a file. */
function apiSources(): Block {
  const registry = buildObject('MCPRegistry', 'fields') as KubernetesObject & MCPRegistry
  const sources = (registry.spec.sources ?? [])
    .filter(({ file }) => file?.path === undefined)
    .map(({ git, api, ...source }) => {
      const { auth: _, ...repository } = git ?? {}
      const { headers: __, ...endpoint } = api ?? {}
      return { ...source, ...(git && { git: repository }), ...(api && { api: endpoint }) }
    })
  return {
    object: { ...registry, spec: { ...registry.spec, sources } } as KubernetesObject,
    from: '/spec/sources',
    file: { sources },
    to: '/sources',
    parse: bySchema(object('Sources.', { sources: list('Sources.', apiSourceSchema) })),
  }
}

const FEWER_BY_RULES = 'the rules of an object cost the API server too much for as many as a file may have'
const LARGER = 'what an object holds has to fit into it, and into a ConfigMap'
const WITH_SERVICE = 'the operator writes the hosts of the Service into it, too'
const OPTIONAL = 'a file says itself what an object leaves to the operator'

const rows: readonly (readonly [what: string, block: Block, left: Readonly<Record<string, string>>])[] = [
  [
    'a registry',
    {
      ...buildBlock(['MCPRegistry', 'fields', '/spec'], ['MCPRegistry/fields', '']),
      schema: registryConfig as SchemaNode,
    },
    {
      '/auth': OPTIONAL,
      '/sources/*/file/data': LARGER,
      '/sources/*/kubernetes': OPTIONAL,
      '/sources/*/kubernetes/namespaces': OPTIONAL,
      '/sources': FEWER_BY_RULES,
      '/registries': FEWER_BY_RULES,
      '/registries/*/sources': FEWER_BY_RULES,
      '/allowedHosts': WITH_SERVICE,
      '/allowedHosts/*': WITH_SERVICE,
    },
  ],
  [
    'a registry’s database',
    buildBlock(['MCPRegistry', 'shared', '/spec/database'], ['MCPRegistry/shared', '/database']),
    {},
  ],
  [
    'a source by the admin API',
    apiSources(),
    { '/*/file/data': LARGER, '/*/kubernetes': OPTIONAL, '/*/kubernetes/namespaces': OPTIONAL },
  ],
  ['telemetry', buildBlock(['MCPTelemetryConfig', 'otel', '/spec'], ['MCPServer/server', '/telemetry']), {}],
  ['a proxy’s audit log', buildBlock(['MCPServer', 'server', '/spec/audit'], ['MCPServer/server', '/audit']), {}],
  [
    'a gateway’s audit log',
    buildBlock(['VirtualMCPServer', 'gateway', '/spec/config/audit'], ['VirtualMCPServer/gateway', '/audit']),
    {},
  ],
]

for (const [what, block, left] of rows)
  test(what, () => {
    assert.equal(differences(block, left), [])
  })

test.run()
