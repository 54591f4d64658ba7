/** The rules for redeeming assertions of an issuer (RFC 7523): `jwtBearerGrant`, and policies of `inboundGrants`. */
import { limits } from '../limits.ts'
import { type CelRule, choice, duration, label, list, object, type Reader, scope, Type, text } from '../schema.ts'

const allowedResources = (readBy: Reader) =>
  list('Resources (audiences) that it may request.', text(readBy, 'A resource.', { min: 1, max: limits.url }), {
    min: 1,
    max: 50,
  })

const subjectBinding = (readBy: Reader) =>
  object('Access of one subject.', {
    subject: text(readBy, 'Subject (`sub`), compared exactly.', { min: 1, max: limits.name, pattern: '^[^*]+$' }),
    allowedResources: allowedResources(readBy),
  })

const subjectRule = (readBy: Reader) =>
  object(
    'Access of the subjects that match a rule.',
    {
      name: label(readBy, 'Name, for the audit log.'),
      subject: Type.Optional(
        text(readBy, 'Subject (`sub`), exactly, or its beginning of at least 8 characters and a `*`.', {
          min: 1,
          max: 512,
          pattern: '^([^*]+|[^*]{8,}\\*)$',
        }),
      ),
      matcher: Type.Optional(
        text(readBy, 'CEL expression over `claims`. One that can not be evaluated does not match.', {
          min: 1,
          max: limits.prose,
        }),
      ),
      allowedResources: allowedResources(readBy),
      scopes: Type.Optional(
        list('Scopes that it may have. Absent: all that clients may request.', scope(readBy), { max: 50 }),
      ),
    },
    { rules: [{ rule: 'has(self.subject) || has(self.matcher)', message: 'set subject, matcher, or both' }] },
  )

const claimName = (readBy: Reader, description: string) => text(readBy, description, { min: 1, max: limits.name })

const tenants = (readBy: Reader) =>
  object('The tenants of an issuer that has several. The subject here is `ISSUER#TENANT#SUB`.', {
    claim: claimName(readBy, 'Claim that names the tenant.'),
    allowed: list(
      'Tenants that are accepted.',
      text(readBy, 'A tenant.', { min: 1, max: limits.name, pattern: '^[^#\\s]+$' }),
      { min: 1, max: 100 },
    ),
  })

const claims = (readBy: Reader) =>
  object('Claims that are copied from the assertion to the token. A name may be a dotted path.', {
    name: Type.Optional(claimName(readBy, 'Claim with the name of the person.')),
    email: Type.Optional(
      claimName(readBy, 'Claim with the e-mail address, which is left out if `email_verified` is false.'),
    ),
    groups: Type.Optional(
      claimName(readBy, 'Claim with the groups, a list of texts. More than 4 KiB of them are refused.'),
    ),
    groupsKept: Type.Optional(
      list(
        'Patterns of groups that the token gets. Absent: all.',
        text(readBy, 'A pattern: `*` is any run of characters, `?` any one.', { min: 1, max: limits.name }),
        { max: 100 },
      ),
    ),
  })

export const jwtBearerPolicy = (readBy: Reader) => ({
  maxAssertionAge: duration(readBy, 'Oldest assertion that is accepted, by its `iat`; up to 1h, reusable ones 24h.', {
    rules: [{ rule: "duration(self) > duration('0s')", message: 'maxAssertionAge must be longer than zero' }],
  }),
  acceptedAudiences: Type.Optional(
    list(
      'Audiences of plain assertions accepted besides the issuer; an ID-JAG names the issuer alone.',
      text(readBy, 'An audience.', { min: 1, max: limits.url }),
      { max: 10 },
    ),
  ),
  acceptedAssertionTypes: Type.Optional(
    list(
      'Kinds of assertions: plain ones, and those for one client (ID-JAG). Absent: both.',
      choice(readBy, 'A kind.', ['jwt_bearer', 'id_jag']),
      { type: 'set', min: 1, max: 2 },
    ),
  ),
  replay: Type.Optional(
    choice(
      readBy,
      'Whether a plain assertion is accepted once, or until it expires; `once` when left out. An ID-JAG is always accepted once.',
      ['once', 'reusable'],
    ),
  ),
  clients: Type.Optional(
    choice(
      readBy,
      'Clients that may redeem an ID-JAG: those that authenticate, or also public ones with a metadata document; `confidential` when left out.',
      ['confidential', 'any'],
    ),
  ),
  defaultScopes: Type.Optional(
    list('Scopes of an ID-JAG that states none. Absent: all of the rules that match.', scope(readBy), {
      min: 1,
      max: 50,
    }),
  ),
  subjectBindings: Type.Optional(
    list('Subjects and their access.', subjectBinding(readBy), { type: { map: ['subject'] }, min: 1, max: 50 }),
  ),
  subjectRules: Type.Optional(
    list('Rules about subjects and their access. All that match count.', subjectRule(readBy), {
      type: { map: ['name'] },
      max: 50,
    }),
  ),
  tenants: Type.Optional(tenants(readBy)),
  audTenant: Type.Optional(
    text(readBy, 'Tenant of this server in `aud_tenant`. Another one is refused.', { min: 1, max: limits.name }),
  ),
  claims: Type.Optional(claims(readBy)),
  linkTo: Type.Optional(
    label(
      readBy,
      'Provider of the same issuer at which these people also log in: a person has one subject, by an assertion and by a login. Absent: the subject is `ISSUER#SUB`.',
    ),
  ),
})

export const JWT_BEARER_RULES: readonly CelRule[] = [
  {
    rule: 'has(self.subjectBindings) || (has(self.subjectRules) && size(self.subjectRules) > 0)',
    message: 'subjectBindings or subjectRules must let somebody in',
  },
  {
    rule: "duration(self.maxAssertionAge) <= duration(has(self.replay) && self.replay == 'reusable' ? '24h' : '1h')",
    message: 'maxAssertionAge must be at most 1h, or 24h with replay reusable',
  },
  {
    rule: "!has(self.replay) || self.replay == 'once' || !has(self.acceptedAssertionTypes) || 'jwt_bearer' in self.acceptedAssertionTypes",
    message: 'replay reusable is for plain assertions: acceptedAssertionTypes must have jwt_bearer',
  },
  {
    rule: '!has(self.linkTo) || !has(self.tenants)',
    message: 'linkTo excludes tenants, which a login at a provider does not tell apart',
  },
]
