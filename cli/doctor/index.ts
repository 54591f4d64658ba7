import { type Command, type Given, UsageError } from '../command.ts'
import { apiGroup, groupOption } from '../options/manifests.ts'
import { ISSUER_OPTION } from './audience.ts'
import { checkProvider } from './check-provider.ts'
import { reportText } from './report.ts'
import type { Subject } from './subject.ts'
import { subjectsIn } from './subjects.ts'

/**
 * Returns the provider that the command line names. With a redirect URI users log in there; else its tokens
 * authenticate callers.
 */
function subjectOf(issuer: string, given: Given): Subject {
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
  about: `idp: asks the identity providers of manifests, or one that is named: are they reached, are metadata, keys and algorithms
right, do the clocks agree, can people log in, are the scopes there. Says what to do about what is wrong, and what to
register at the provider. The same of issuers whose assertions are a grant, and of the keys of clients. Uses no secret. Exits 1 when something would keep callers or users out.

backend: asks MCP servers as a gateway does, and tells what they do differently from the specification and what Portico
makes of it. Calls no tool. Exits 1 when something would keep their tools from being served.`,
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
      description: 'Providers may have private addresses, whatever is configured.',
    },
    transport: {
      type: 'string',
      value: ['streamable-http', 'sse'],
      default: 'streamable-http',
      description: 'With backend: how the server is reached.',
    },
    header: {
      type: 'string',
      value: 'NAME=VALUE',
      multiple: true,
      description: 'With backend: a header of each request. Others on this machine see the value.',
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
    if (what === 'backend') return (await import('./backend/index.ts')).lookAtBackends(paths, given, io)
    if (what !== 'idp') throw new UsageError('what to look at is missing: idp or backend')
    const issuer = given.text('issuer')
    if ((issuer === undefined) === (paths.length === 0))
      throw new UsageError('takes either files or folders of manifests, or --issuer')
    const subjects = issuer === undefined ? subjectsIn(paths, apiGroup(given, io)) : [subjectOf(issuer, given)]
    const options = { caBundleFile: given.text('ca-bundle'), allowPrivateIP: given.flag('allow-private-ip') }
    const diagnoses = await Promise.all(subjects.map((subject) => checkProvider(subject, options)))
    if (given.text('output') === 'json') io.out(`${JSON.stringify({ providers: diagnoses })}\n`)
    else if (diagnoses.length === 0) io.out('These manifests name no identity provider by its issuer.\n')
    else io.out(diagnoses.map(reportText).join('\n'))
    return diagnoses.some(({ findings }) => findings.some(({ severity }) => severity === 'error')) ? 1 : 0
  },
}
