import Type, { type Static } from 'typebox'
import { type Finding, findingLine } from '../../../dataplane/config/load.ts'
import { longParser } from '../../../dataplane/config/read/long-parser.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { type Outbound, outboundNetwork, outboundProblem } from '../../render/network/network-policy.ts'
import type { Resolver } from './resolver.ts'

const strict = { additionalProperties: false }
const texts = Type.Optional(Type.Array(Type.String()))

/** A profile of the widely used operator. Pods can enforce only its rules on outbound traffic. */
const profileSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    read: texts,
    write: texts,
    privileged: Type.Optional(Type.Boolean()),
    network: Type.Optional(
      Type.Object(
        {
          mode: Type.Optional(Type.String()),
          outbound: Type.Optional(
            Type.Object(
              {
                insecure_allow_all: Type.Optional(Type.Boolean()),
                allow_host: Type.Optional(Type.Array(Type.String(), { maxItems: 256 })),
                allow_port: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), { maxItems: 256 })),
              },
              strict,
            ),
          ),
          inbound: Type.Optional(Type.Object({ allow_host: texts }, strict)),
        },
        strict,
      ),
    ),
  },
  strict,
)

type Profile = Static<typeof profileSchema>

const MODES = new Set(['', 'bridge', 'default', 'none'])

/** Finds what a profile asks for that a pod can't enforce. */
function unenforceable({ read = [], write = [], privileged, network = {} }: Profile): readonly Finding[] {
  const { mode = '', outbound = {}, inbound } = network
  const findings: Finding[] = []
  const refuse = (isRefused: boolean | undefined, pointer: string, message: string) => {
    if (isRefused) findings.push({ pointer, message })
  }
  refuse(read.length > 0, '/read', 'a pod has no access to files of the host; mount a volume by podTemplateSpec')
  refuse(write.length > 0, '/write', 'a pod has no access to files of the host; mount a volume by podTemplateSpec')
  refuse(privileged, '/privileged', 'a server never runs privileged')
  refuse(!MODES.has(mode), '/network/mode', 'must be none or bridge: a server never has the network of its node')
  refuse(
    (inbound?.allow_host ?? []).length > 0,
    '/network/inbound',
    'is not supported here: use networkPolicy.ingressFrom',
  )
  for (const [index, host] of (outbound.allow_host ?? []).entries()) {
    const problem = outboundProblem(host)
    if (problem !== undefined) findings.push({ pointer: `/network/outbound/allow_host/${index}`, message: problem })
  }
  return findings
}

const parseProfile = longParser('permission profiles', configParser(profileSchema, unenforceable))

function buildOutbound({ network = {} }: Profile): Outbound {
  const { mode, outbound = {} } = network
  if (mode === 'none') return 'nothing'
  const { insecure_allow_all: isOpen, allow_host: hosts = [], allow_port: ports = [] } = outbound
  if (isOpen) return 'anything'
  if (hosts.length === 0 && ports.length === 0) return 'nothing'
  const networks = hosts.map(outboundNetwork)
  return { networks: [...new Set(networks)].sort(), ports: [...new Set(ports)].sort((a, b) => a - b) }
}

const builtin: Readonly<Record<string, Outbound>> = { none: 'nothing', network: 'anything' }

/** The reference to a server's profile. */
export interface ProfileReference {
  readonly type: 'builtin' | 'configmap'
  readonly name: string
  readonly key?: string
}

const AT = '/spec/permissionProfile'

/** Returns the allowed outbound traffic. Undefined without a profile or, after recording why, if it is unreadable. */
export function outboundProfile(profile: ProfileReference | undefined, resolver: Resolver): Outbound | undefined {
  if (profile === undefined) return undefined
  const { type, name, key } = profile
  if (type === 'configmap') return profileInConfigMap(name, key, resolver)
  const known = Object.hasOwn(builtin, name) ? builtin[name] : undefined
  if (key !== undefined) refuse(resolver, `${AT}/key`, 'needs type configmap')
  if (known === undefined) refuse(resolver, `${AT}/name`, 'must be none or network; type configmap names a ConfigMap')
  return known
}

const refuse = ({ problems }: Resolver, pointer: string, message: string) =>
  problems.add('Valid', 'ConfigInvalid', { pointer, joint: ' ', message })

function profileInConfigMap(name: string, key: string | undefined, resolver: Resolver): Outbound | undefined {
  if (key === undefined) {
    refuse(resolver, `${AT}/key`, 'must be set when type is configmap')
    return undefined
  }
  const text = resolver.configMapKey({ name, key })
  if (text === undefined) return undefined
  const parsed = parseProfile(text)
  if ('value' in parsed) return buildOutbound(parsed.value)
  const about = { kind: 'ConfigMap', name }
  const found = parsed.findings.map(findingLine).join('; ')
  const message = `ConfigMap ${JSON.stringify(name)}, ${key}: ${found}`
  resolver.problems.add('ReferencesResolved', 'ReferenceInvalid', { about, message })
  return undefined
}
