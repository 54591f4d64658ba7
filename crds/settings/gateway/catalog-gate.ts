import { inFile, mountedAs } from '../file-form.ts'
import { limits } from '../limits.ts'
import { caBundleRef, secretKeyRef } from '../references.ts'
import { durationWithin, exactlyOne } from '../rules.ts'
import { choice, defaulted, duration, label, list, object, objectName, Type, text, url } from '../schema.ts'
import { gateDefaults, gateStale } from './defaults.ts'

const registryRef = mountedAs(
  'nothing',
  object('The MCPRegistry that is asked.', {
    name: objectName('operator', 'Name of the MCPRegistry.'),
    namespace: Type.Optional(label('operator', 'Its namespace. Absent: that of this object.')),
  }),
)

const serviceAccountAudience = mountedAs(
  'nothing',
  text('operator', 'Audience of a token of the pod’s own service account, in place of a secret.', {
    min: 1,
    max: limits.url,
  }),
)

const registry = object(
  'A registry that is asked.',
  {
    name: label('gateway', 'Unique name, for people.'),
    registryRef: Type.Optional(registryRef),
    url: Type.Optional(url('gateway', 'Base URL of a registry server, in place of registryRef.')),
    registry: label('gateway', 'Name of the registry on that server.'),
    tokenSecretRef: Type.Optional(
      inFile('tokenFile', secretKeyRef('gateway', 'Bearer token with the role readGates.')),
    ),
    serviceAccountAudience: Type.Optional(serviceAccountAudience),
    caBundleRef: Type.Optional(caBundleRef('gateway', 'CAs trusted for the server, besides the system’s.')),
  },
  {
    rules: [
      exactlyOne('registryRef', 'url'),
      {
        rule: '!(has(self.tokenSecretRef) && has(self.serviceAccountAudience))',
        message: 'tokenSecretRef and serviceAccountAudience exclude each other',
      },
    ],
  },
)

const stale = durationWithin(gateStale.shortest, gateStale.longest)

export const catalogGate = object(
  'Shows callers only the backends that registries show them.',
  {
    mode: defaulted(
      choice(
        'gateway',
        'Whether backends that are not approved are withheld, or only reported.',
        ['disabled', 'report', 'enforce'],
        { default: gateDefaults.mode },
      ),
    ),
    registries: Type.Optional(
      list('Registries that are asked. An entry in one of them is enough.', registry, {
        type: { map: ['name'] },
        min: 1,
        max: 8,
      }),
    ),
    match: defaulted(
      choice(
        'gateway',
        'How a backend is found in a registry: by its identity and location, or only by its name.',
        ['identity', 'name'],
        { default: gateDefaults.match },
      ),
    ),
    onUnavailable: defaulted(
      choice(
        'gateway',
        'What applies while a registry does not answer: its last answer, or none.',
        ['lastKnown', 'close'],
        { default: gateDefaults.onUnavailable },
      ),
    ),
    maxStale: defaulted(
      duration('gateway', 'How long the last answer of a registry stays valid, 1m to 168h.', {
        default: gateDefaults.maxStale,
        rules: [{ ...stale, message: `maxStale ${stale.message}` }],
      }),
    ),
  },
  {
    rules: [
      {
        rule: "self.mode == 'disabled' || has(self.registries)",
        message: 'registries must be set unless mode is disabled',
      },
    ],
  },
)
