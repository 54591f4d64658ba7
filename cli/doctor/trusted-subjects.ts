import type { Manifest } from '../../operator/cluster/files/index.ts'
import { distinct, type Fields, formatPlace, readFields, readList, readText, readTexts } from './fields.ts'
import type { Subject } from './subject.ts'

/** Returns the other issuers whose tokens an authorization server takes, and the URLs of clients' keys. */
export function trustedSubjects(manifest: Manifest, server: Fields): readonly Subject[] {
  const issuer = readText(server, 'issuer')
  if (issuer === undefined) return []
  const where = formatPlace(manifest)
  const grants = readFields(server, 'inboundGrants')
  const clients = readList(readFields(grants, 'clientCredentials'), 'clients')
  return [
    ...readList(server, 'trustedIssuers').flatMap((one) => issuerSubject(one, { where, issuer, grants })),
    ...clients.flatMap((client) =>
      keySubject(readText(client, 'jwksUrl'), `${where}, client ${readText(client, 'clientId')}`, issuer),
    ),
    ...readList(server, 'spiffeTrustDomains').flatMap((domain) => {
      const url = readText(readFields(readFields(domain, 'bundleSource'), 'endpoint'), 'url')
      const found = keySubject(url, `${where}, trust domain ${readText(domain, 'trustDomain')}`, issuer)
      return found.map((subject) => ({ ...subject, keyUse: 'jwt-svid' as const }))
    }),
  ]
}

interface Server {
  readonly where: string
  readonly issuer: string
  readonly grants: Fields
}

function issuerSubject(trusted: Fields, { where, issuer, grants }: Server): readonly Subject[] {
  const issuerUrl = readText(trusted, 'issuerUrl')
  if (issuerUrl === undefined) return []
  const name = readText(trusted, 'name')
  const policies = ['jwtBearer', 'tokenExchange'].flatMap((grant) =>
    readList(readFields(grants, grant), 'issuerPolicies').filter((policy) => readText(policy, 'issuerRef') === name),
  )
  const all = [trusted, readFields(trusted, 'jwtBearerGrant'), ...(name === undefined ? [] : policies)]
  return [
    {
      where: `${where}, trusted issuer${name === undefined ? '' : ` ${name}`}`,
      use: 'assertions',
      issuer: issuerUrl,
      isOfCluster: trusted['keySource'] === 'cluster',
      jwksUrl: readText(trusted, 'jwksUrl'),
      allowPrivateIP: trusted['allowPrivateIPs'] === true,
      insecureAllowHTTP: trusted['insecureAllowHTTP'] === true,
      allowedBy: 'trustedIssuers[].allowPrivateIPs',
      scopes: [],
      audiences: distinct([
        issuer,
        ...all.flatMap((policy) => [readText(policy, 'expectedAudience'), ...readTexts(policy, 'acceptedAudiences')]),
      ]),
    },
  ]
}

const keySubject = (url: string | undefined, where: string, server: string): readonly Subject[] =>
  url === undefined ? [] : [{ where, use: 'keys', issuer: url, server, scopes: [], audiences: [] }]
