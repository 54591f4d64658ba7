import { type Command, type Given, UsageError } from '../command.ts'
import { groupOption, readApiGroup } from '../options/manifests.ts'
import { checkProvider, ISSUER_OPTION } from './check-provider.ts'
import { reportText } from './report.ts'
import { readSubjects, type Subject } from './subjects.ts'

/** Returns the named provider. With a redirect URI users log in there; otherwise its tokens authenticate callers. */
function readSubject(issuer: string, given: Given): Subject {
  const redirectUri = given.text('redirect-uri')
  return {
    where: ISSUER_OPTION,
    use: redirectUri === undefined ? 'tokens' : 'login',
    issuer,
    allowedBy: 'jwksAllowPrivateIP',
    scopes: given.texts('scope'),
    audiences: given.texts('audience'),
    redirectUri,
  }
}

export const command: Command = {
  name: 'doctor',
  synopsis: 'idp DIR|FILE … [options]  or  idp --issuer URL [options]  or  backend URL … [options]',
  about: `idp: checks the identity providers that manifests name, or one given by --issuer: whether they can be reached, whether
metadata, keys and algorithms are right, whether the clocks agree, whether people can log in, and whether the scopes exist.
Prints what to do about each problem and what to register at the provider. Also checks issuers whose assertions are a
grant, and keys of clients. Uses no secret. Exits 1 if a problem keeps callers or users out.

backend: sends MCP servers the requests of a gateway, and prints how they differ from the specification and how Portico
handles that. Calls no tool. Exits 1 if a problem keeps their tools from being served.`,
  options: {
    issuer: { type: 'string', value: 'URL', description: 'A provider, in place of manifests.' },
    audience: { type: 'string', value: 'TEXT', multiple: true, description: 'With --issuer: audience of the tokens.' },
    scope: { type: 'string', value: 'SCOPE', multiple: true, description: 'With --issuer: a scope to ask for.' },
    'redirect-uri': {
      type: 'string',
      value: 'URL',
      description: 'With --issuer: users log in there and come back here; {issuer}/oauth/callback of a gateway.',
    },
    'ca-bundle': { type: 'string', value: 'FILE', description: 'PEM file of CAs trusted besides the system’s.' },
    'allow-private-ip': {
      type: 'boolean',
      description: 'Allow private addresses of providers, whatever the manifests say.',
    },
    transport: {
      type: 'string',
      value: ['streamable-http', 'sse'],
      default: 'streamable-http',
      description: 'With backend: the transport of the server.',
    },
    header: {
      type: 'string',
      value: 'NAME=VALUE',
      multiple: true,
      description: 'With backend: a header of each request. Other users of this machine can see the value.',
    },
    'header-file': {
      type: 'string',
      value: 'NAME=FILE',
      multiple: true,
      description: 'With backend: the same, with the value in a file.',
    },
    output: { type: 'string', value: ['text', 'json'], default: 'text', description: 'Form of the output.' },
    'api-group': groupOption,
  },
  async run(given, io) {
    const [what, ...paths] = given.positionals
    if (what === 'backend') return (await import('./backend/index.ts')).checkBackends(paths, given, io)
    if (what !== 'idp') throw new UsageError('name what to check: idp or backend')
    const issuer = given.text('issuer')
    if ((issuer === undefined) === (paths.length === 0))
      throw new UsageError('takes either files or folders of manifests, or --issuer')
    const subjects = issuer === undefined ? readSubjects(paths, readApiGroup(given, io)) : [readSubject(issuer, given)]
    const options = { caBundleFile: given.text('ca-bundle'), allowPrivateIP: given.flag('allow-private-ip') }
    const diagnoses = await Promise.all(subjects.map((subject) => checkProvider(subject, options)))
    if (given.text('output') === 'json') io.out(`${JSON.stringify({ providers: diagnoses })}\n`)
    else if (diagnoses.length === 0) io.out('These manifests name no identity provider by its issuer.\n')
    else io.out(diagnoses.map(reportText).join('\n'))
    return diagnoses.some(({ findings }) => findings.some(({ severity }) => severity === 'error')) ? 1 : 0
  },
}
