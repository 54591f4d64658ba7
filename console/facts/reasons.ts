/** A reason of a condition, for people: what it means, and what to do. */
export interface ReasonText {
  readonly meaning: string
  readonly next: string
}

const NEEDED = 'Create what is missing, or change the name in the spec. The object recovers by itself.'

/** Reasons of conditions and problems. The help pages list them all. */
export const reasons: Readonly<Record<string, ReasonText>> = {
  ReferenceNotFound: { meaning: 'The spec names an object that does not exist in this namespace.', next: NEEDED },
  ReferenceInvalid: {
    meaning: 'The spec names an object that is there but can’t be used.',
    next: 'Open the named object and mend what its own conditions say.',
  },
  SecretNotFound: { meaning: 'The spec names a Secret that does not exist in this namespace.', next: NEEDED },
  SecretKeyNotFound: { meaning: 'The Secret exists and lacks the key that the spec names.', next: NEEDED },
  ConfigMapNotFound: { meaning: 'The spec names a ConfigMap that does not exist in this namespace.', next: NEEDED },
  ConfigMapKeyNotFound: { meaning: 'The ConfigMap exists and lacks the key that the spec names.', next: NEEDED },
  CABundleInvalid: {
    meaning: 'The CA bundle holds no certificate that can be read.',
    next: 'Put certificates in PEM into the named key.',
  },
  ConfigInvalid: {
    meaning: 'A setting is not valid. What ran before goes on running.',
    next: 'Change the field that the message names.',
  },
  NotSupported: {
    meaning: 'The field is accepted by the schema and not supported here.',
    next: 'Remove the field, or use what the message proposes.',
  },
  NameInvalid: {
    meaning: 'The name can’t be used for the objects made from it.',
    next: 'Choose a shorter name of lower-case letters, digits and dashes.',
  },
  NameTaken: {
    meaning: 'Somebody else’s object has the name of one that belongs here. It is left alone.',
    next: 'Rename or delete that object, or rename this one.',
  },
  ConfigTooLarge: {
    meaning: 'The configuration is larger than a ConfigMap holds.',
    next: 'Split the workload, or shorten its lists.',
  },
  ConfigRefused: {
    meaning: 'The running process refused its new configuration and serves the last one.',
    next: 'Read the findings in the log of its pod.',
  },
  IssuerMismatch: {
    meaning: 'Two settings name different issuers.',
    next: 'Give the authorization server and the OIDC configuration the same issuer.',
  },
  AudienceMissing: {
    meaning: 'No audience says for whom tokens are.',
    next: 'Set incomingAuth.audience to the public URL of the endpoint.',
  },
  AudienceConflict: { meaning: 'Two settings name different audiences.', next: 'Keep one of them.' },
  CredentialUnusable: {
    meaning: 'The credential for a backend can’t be used as it is set.',
    next: 'Change the external auth configuration that the message names.',
  },
  UpstreamProviderUnknown: {
    meaning: 'A setting names a login provider that is not configured.',
    next: 'Use the name of a provider in authServerConfig.upstreamProviders.',
  },
  AuthServerNotShared: {
    meaning: 'Several replicas can’t share an authorization server that keeps its state in memory.',
    next: 'Give it signing keys and Redis storage, or one replica.',
  },
  AggregationConflict: {
    meaning: 'Two servers have a tool of one name, and nothing says which is meant.',
    next: 'Set a filter, an override or the conflict resolution `prefix`.',
  },
  AddressRefused: {
    meaning: 'The address is one that must not be called.',
    next: 'Use an address outside the refused ranges, or allow it where the message says.',
  },
  PodSecurityViolation: {
    meaning: 'The pod template asks for more than Pod Security `baseline` allows.',
    next: 'Remove the named fields, or run the operator with --pod-template=any.',
  },
  InvalidPodTemplateSpec: {
    meaning: 'The pod template is not valid.',
    next: 'Change the field that the message names.',
  },
  PortTaken: { meaning: 'Another process or container has the port.', next: 'Free the port, or choose another one.' },
  PortRefused: { meaning: 'This port can’t be listened on.', next: 'Choose a port above 1024 that is free.' },
  PortNameTaken: { meaning: 'A container of the pod template uses a port name of ours.', next: 'Rename the port.' },
  Crashed: {
    meaning: 'The process ended, and is started again after a pause.',
    next: 'Read its last words in the message, and its log.',
  },
  NotAnswering: {
    meaning: 'The process runs and does not answer.',
    next: 'Check the port and path on which it serves.',
  },
  NotReady: {
    meaning: 'The process runs and says that it is not ready.',
    next: 'Wait a moment; if it stays so, read its log.',
  },
  NotStarted: { meaning: 'The process could not be started.', next: 'Check the command in the message.' },
  NotRunnableHere: {
    meaning: 'The workload needs a cluster.',
    next: 'Give it the annotation local-command, which says what to start on this machine.',
  },
  PodsNotReady: { meaning: 'Pods are there and not ready.', next: 'Look at the pods: kubectl describe pod.' },
  PodsNotAsked: {
    meaning: 'The pods can’t be asked for their status.',
    next: 'Check that NetworkPolicies let the operator reach the admin port.',
  },
  PodStatusUnknown: {
    meaning: 'Nothing is known of the pods yet.',
    next: 'Wait a moment; if it stays so, look at the operator’s log.',
  },
  ImagePullBackOff: { meaning: 'The image can’t be pulled.', next: 'Check its name, tag and pull secret.' },
  ErrImagePull: { meaning: 'The image can’t be pulled.', next: 'Check its name, tag and pull secret.' },
  CrashLoopBackOff: { meaning: 'The container ends again and again.', next: 'Read its log: kubectl logs --previous.' },
  FailedCreate: { meaning: 'Pods can’t be created.', next: 'Check quotas, admission rules and the service account.' },
  Unschedulable: { meaning: 'No node takes the pods.', next: 'Check requests, node selectors and taints.' },
  ProgressDeadlineExceeded: {
    meaning: 'The roll-out takes longer than its deadline.',
    next: 'Look at the newest pods: kubectl describe pod.',
  },
  Progressing: { meaning: 'It is being rolled out.', next: 'Wait a moment.' },
  KindNotServed: {
    meaning: 'The cluster does not serve a kind that is needed.',
    next: 'Install the custom resource definitions that the message names.',
  },
  DeletionBlocked: {
    meaning: 'It is being deleted and something still uses it.',
    next: 'Remove the references that the message names.',
  },
  BackendsUnavailable: {
    meaning: 'Some of the servers behind it can’t be used.',
    next: 'Open the servers that the message names.',
  },
  BackendsLeftOut: {
    meaning: 'Some members of the group are left out.',
    next: 'Mend the members that the message names.',
  },
  NoBackends: { meaning: 'No server is behind it.', next: 'Let a server name its group in groupRef.' },
  NoMembers: { meaning: 'No server belongs to the group.', next: 'Let a server name the group in groupRef.' },
  NoSuchTool: { meaning: 'A setting names a tool that no server has.', next: 'Correct the name of the tool.' },
  NoSuchMember: {
    meaning: 'A setting names a server that is not in the group.',
    next: 'Correct the name of the server.',
  },
  SourcesFailed: {
    meaning: 'A source of the registry can’t be read. What was read before is still served.',
    next: 'Mend the source that the message names.',
  },
  SourcesWaiting: { meaning: 'A source of the registry has not been read yet.', next: 'Wait a moment.' },
  AnonymousCallers: { meaning: 'Whoever reaches the endpoint may call it.', next: 'Set incomingAuth.type to oidc.' },
  OpenToAll: {
    meaning: 'A credential is used for callers whom nobody knows.',
    next: 'Let callers log in, or keep the endpoint inside the cluster.',
  },
  MemorySessions: {
    meaning: 'Sessions live in the memory of one replica.',
    next: 'Set sessionStorage.provider to redis.',
  },
  NotPersistent: { meaning: 'State is lost when the pod ends.', next: 'Set a persistent storage.' },
  CountedByEachPod: { meaning: 'Each pod counts limits for itself.', next: 'Set sessionStorage.provider to redis.' },
  NoIdentity: {
    meaning: 'The provider says nothing about who logs in.',
    next: 'Set userInfo, or another provider first.',
  },
  NotEnforced: { meaning: 'The setting is accepted and nothing enforces it.', next: 'Do what the message proposes.' },
  NoPublicHost: { meaning: 'No public host name is known.', next: 'Set resourceUrl or externalUrl.' },
  GroupsDiffer: { meaning: 'The object and the setting name different groups.', next: 'Name one group.' },
  EntryInvalid: {
    meaning: 'An entry of a server’s list does not follow the MCP schema and is left out.',
    next: 'Tell the author of the server.',
  },
  AuditLogNotWritten: {
    meaning: 'The audit log can’t be written.',
    next: 'Check the file’s folder and its free space.',
  },
  DefinitionsLeftOut: {
    meaning: 'Some definitions are left out.',
    next: 'Mend the definitions that the message names.',
  },
  DefinitionsRefused: { meaning: 'A definition is refused.', next: 'Mend the definition that the message names.' },
  ReconcileFailed: { meaning: 'The operator failed to look after the object.', next: 'Look at the operator’s log.' },
  NoAnswer: { meaning: 'A party that is asked gives no answer.', next: 'Check that it runs and can be reached.' },
  ProxyShutIn: { meaning: 'NetworkPolicies keep the proxy from its server.', next: 'Allow egress to the server.' },
  unhealthy: { meaning: 'The server does not answer.', next: 'Check that it runs, its address and its port.' },
  degraded: {
    meaning: 'The server answers slowly, or its last request failed.',
    next: 'Look at the last error; it may pass.',
  },
  unauthenticated: {
    meaning: 'The server refuses the gateway’s credential.',
    next: 'Check the external auth configuration of the server.',
  },
}

/** Returns the text of a reason; undefined for one that is not known. */
export const reasonText = (reason: string): ReasonText | undefined =>
  Object.hasOwn(reasons, reason) ? reasons[reason] : undefined

/** Returns the place of a reason in the help pages. */
export const reasonHelp = (reason: string): string =>
  Object.hasOwn(reasons, reason) ? `/help/conditions#${reason}` : '/help/conditions'
