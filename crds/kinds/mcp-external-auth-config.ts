import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { authServer } from '../settings/auth/auth-server.ts'
import {
  awsSts,
  bearerToken,
  crossAppAccess,
  headerInjection,
  onBehalfOf,
  tokenExchange,
  upstreamInject,
} from '../settings/auth/external-auth.ts'
import { blockFor } from '../settings/rules.ts'
import { choice, object, Type } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

const OBO = 'on-behalf-of is not supported; use tokenExchange or xaa'

const types = [
  'tokenExchange',
  'headerInjection',
  'bearerToken',
  'unauthenticated',
  'embeddedAuthServer',
  'awsSts',
  'upstreamInject',
  'obo',
  'xaa',
] as const

const blocks = types.filter((type) => type !== 'unauthenticated')

export const mcpExternalAuthConfig = defineKind({
  kind: 'MCPExternalAuthConfig',
  plural: 'mcpexternalauthconfigs',
  shortNames: ['mcpextauth'],
  description: 'How a gateway or proxy gets the credential for a backend; shared by workloads.',
  role: 'config',
  columns: [{ name: 'Type', type: 'string', jsonPath: '.spec.type' }, users, ready, age],
  spec: object(
    'How the credential is obtained.',
    {
      type: choice('gateway', 'Strategy.', types, { refusedValues: { obo: OBO } }),
      tokenExchange: Type.Optional(tokenExchange),
      headerInjection: Type.Optional(headerInjection),
      bearerToken: Type.Optional(bearerToken),
      embeddedAuthServer: Type.Optional(authServer('proxy')),
      awsSts: Type.Optional(awsSts),
      upstreamInject: Type.Optional(upstreamInject),
      obo: Type.Optional(onBehalfOf({ refused: OBO })),
      xaa: Type.Optional(crossAppAccess),
    },
    { rules: blockFor('type', Object.fromEntries(blocks.map((type) => [type, type]))) },
  ),
  status: configStatus([...workloadKinds, 'MCPServerEntry'], {}),
})

export type MCPExternalAuthConfig = ObjectOf<typeof mcpExternalAuthConfig>
