import type { Manifest } from '../../operator/cluster/files/index.ts'
import { distinct, type Fields, fieldsOf, listOf, textOf, textsOf, whereOf } from './fields.ts'
import type { Subject } from './subject.ts'

/**
 * Returns the other issuers whose tokens an authorization server takes, in either form, and the addresses of the keys of
 * clients and trust domains.
 */
export function trustedSubjects(manifest: Manifest, server: Fields): readonly Subject[] {
  const issuer = textOf(server, 'issuer')
  if (issuer === undefined) return []
  const where = whereOf(manifest)
  const grants = fieldsOf(server, 'inboundGrants')
  const clients = listOf(fieldsOf(grants, 'clientCredentials'), 'clients')
  return [
    ...listOf(server, 'trustedIssuers').flatMap((one) => issuerSubject(one, { where, issuer, grants })),
    ...clients.flatMap((client) =>
      keySubject(textOf(client, 'jwksUrl'), `${where}, client ${textOf(client, 'clientId')}`, issuer),
    ),
    ...listOf(server, 'spiffeTrustDomains').flatMap((domain) => {
      const url = textOf(fieldsOf(fieldsOf(domain, 'bundleSource'), 'endpoint'), 'url')
      const found = keySubject(url, `${where}, trust domain ${textOf(domain, 'trustDomain')}`, issuer)
      return found.map((subject) => ({ ...subject, keyUse: 'jwt-svid' as const }))
    }),
  ]
}

interface Server {
  readonly where: string
  /** The issuer of the authorization server. */
  readonly issuer: string
  readonly grants: Fields
}

function issuerSubject(trusted: Fields, { where, issuer, grants }: Server): readonly Subject[] {
  const issuerUrl = textOf(trusted, 'issuerUrl')
  if (issuerUrl === undefined) return []
  const name = textOf(trusted, 'name')
  const policies = ['jwtBearer', 'tokenExchange'].flatMap((grant) =>
    listOf(fieldsOf(grants, grant), 'issuerPolicies').filter((policy) => textOf(policy, 'issuerRef') === name),
  )
  const all = [trusted, fieldsOf(trusted, 'jwtBearerGrant'), ...(name === undefined ? [] : policies)]
  return [
    {
      where: `${where}, trusted issuer${name === undefined ? '' : ` ${name}`}`,
      use: 'assertions',
      issuer: issuerUrl,
      isOfCluster: trusted['keySource'] === 'cluster',
      jwksUrl: textOf(trusted, 'jwksUrl'),
      allowPrivateIP: trusted['allowPrivateIPs'] === true,
      insecureAllowHTTP: trusted['insecureAllowHTTP'] === true,
      allowedBy: 'trustedIssuers[].allowPrivateIPs',
      scopes: [],
      audiences: distinct([
        issuer,
        ...all.flatMap((policy) => [textOf(policy, 'expectedAudience'), ...textsOf(policy, 'acceptedAudiences')]),
      ]),
    },
  ]
}

const keySubject = (url: string | undefined, where: string, server: string): readonly Subject[] =>
  url === undefined ? [] : [{ where, use: 'keys', issuer: url, server, scopes: [], audiences: [] }]
