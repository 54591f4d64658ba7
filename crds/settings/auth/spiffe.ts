import { mountedAs } from '../file-form.ts'
import { limits } from '../limits.ts'
import { blockFor, httpsOrLoopback, plainClientId } from '../rules.ts'
import {
  type CelRule,
  choice,
  clientId,
  label,
  list,
  object,
  objectName,
  type Reader,
  scope,
  Type,
  text,
  url,
} from '../schema.ts'

const X509 = 'SPIFFE over X.509 is not supported; use spiffe_jwt'

/** The name of a trust domain (SPIFFE-ID section 2.1). */
const TRUST_DOMAIN = '[a-z0-9._-]{1,255}'
/** A SPIFFE ID, or the ids below a path (`/*`). */
const PRINCIPAL = `^spiffe://${TRUST_DOMAIN}(/[A-Za-z0-9._-]+)*(/\\*)?$`

const methods = (readBy: Reader) =>
  list(
    'Ways in which workloads authenticate.',
    choice(readBy, 'A way.', ['spiffe_x509', 'spiffe_jwt'], { refusedValues: { spiffe_x509: X509 } }),
    { min: 1, max: 2, type: 'set' },
  )

const bundleSource = (readBy: Reader) =>
  object(
    'Source of the keys of a trust domain.',
    {
      type: choice(readBy, 'Kind of the source.', ['bundle_endpoint', 'file', 'workload_api'], {
        refusedValues: { workload_api: 'the workload API is not supported; use bundle_endpoint or file' },
      }),
      endpoint: Type.Optional(
        object(
          'A bundle endpoint.',
          {
            url: url(readBy, 'Its URL: a public https address, or http on loopback while the issuer is there.'),
            profile: choice(readBy, 'How the endpoint authenticates itself.', ['https_web', 'https_spiffe'], {
              refusedValues: { https_spiffe: X509 },
            }),
          },
          { rules: httpsOrLoopback('url') },
        ),
      ),
      file: Type.Optional(
        mountedAs(
          'configMap',
          object('A bundle (JWK set) in a ConfigMap.', {
            configMapName: objectName(readBy, 'Name of the ConfigMap.', { refersTo: 'ConfigMap' }),
            configMapKey: text(readBy, 'Key in the ConfigMap.', { min: 1, max: limits.name }),
          }),
        ),
      ),
    },
    { rules: blockFor('type', { bundle_endpoint: 'endpoint', file: 'file' }) },
  )

export const spiffeTrustDomains = (readBy: Reader) =>
  list(
    'Trust domains of SPIFFE whose workloads may be clients.',
    object('A trust domain.', {
      name: label(readBy, 'Name, by which `inboundGrants.spiffeClientAuth` refers to it.'),
      trustDomain: text(readBy, 'The trust domain, without `spiffe://`.', {
        min: 1,
        max: 255,
        pattern: `^${TRUST_DOMAIN}$`,
      }),
      methods: methods(readBy),
      bundleSource: bundleSource(readBy),
    }),
    { type: { map: ['name'] }, max: 50 },
  )

const resources = (readBy: Reader, description: string) =>
  Type.Optional(list(description, text(readBy, 'A resource.', { min: 1, max: limits.url }), { max: 50 }))

export const spiffeClientAuth = (readBy: Reader) =>
  list(
    'Workloads of SPIFFE that get tokens for themselves (`client_credentials`).',
    object(
      'Workloads that are one client.',
      {
        trustDomainRef: label(readBy, 'Name of one of `spiffeTrustDomains`.'),
        principalPattern: text(readBy, 'A SPIFFE ID, or all below a path: `spiffe://example.org/ns/a/*`.', {
          min: 1,
          max: limits.url,
          pattern: PRINCIPAL,
        }),
        clientId: clientId(readBy, 'Client id. Its tokens have the subject `client#` and this id.'),
        methods: methods(readBy),
        resources: resources(readBy, 'Resources that it may request.'),
        audiences: resources(readBy, 'Further resources, by their audience.'),
        scopes: Type.Optional(list('Scopes that it may request. Absent: none.', scope(readBy), { max: 50 })),
      },
      {
        rules: [
          {
            rule: '(has(self.resources) && size(self.resources) > 0) || (has(self.audiences) && size(self.audiences) > 0)',
            message: 'spiffeClientAuth needs resources or audiences',
          },
          plainClientId,
        ],
      },
    ),
    { type: { map: ['clientId'] }, max: 100 },
  )

/** CEL: each client of SPIFFE refers to a trust domain by its name. */
export const SPIFFE_RULES: readonly CelRule[] = [
  {
    rule: '!has(self.inboundGrants) || !has(self.inboundGrants.spiffeClientAuth) || self.inboundGrants.spiffeClientAuth.all(client, has(self.spiffeTrustDomains) && self.spiffeTrustDomains.exists(domain, domain.name == client.trustDomainRef))',
    message: 'trustDomainRef of inboundGrants.spiffeClientAuth must be the name of one of spiffeTrustDomains',
  },
]
