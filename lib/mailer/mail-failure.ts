/** What a failed attempt to send a mail says. */
export type MailVerdict =
  /** This mail will be refused again: dead at once. */
  | 'permanent'
  /** This mail was not taken, and may be later: an attempt is used up. */
  | 'temporary'
  /** No mail can be sent: credentials, configuration. No attempt is used up. */
  | 'transport'
  /** A connection that failed: the server is away, or it gave up because of this mail. To be found out by asking it. */
  | 'unclear';

/** What nodemailer, its transports and the AWS SDK tell beside the message; everything is optional. */
interface TransportError {
  code?: unknown;
  /** nodemailer 10: the code of the system where it has put its own. */
  originalCode?: unknown;
  /** Of Node's errors. */
  syscall?: unknown;
  responseCode?: unknown;
  rejectedErrors?: unknown;
  name?: unknown;
  $fault?: unknown;
}

/** nodemailer's codes for what is wrong with the mail itself, whoever sends it. */
const PERMANENT = new Set(['EMAXRECIPIENTS', 'EFILEACCESS', 'EURLACCESS', 'EREQUIRETLS', 'EOTP']);
const TRANSPORT = new Set(['EAUTH', 'ENOAUTH', 'EOAUTH2', 'ECONFIG', 'EPROXY']);
/** Nothing has been said to a server yet. Node's own codes come from transports that speak HTTP. */
const UNREACHABLE = new Set([
  'EDNS',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const BROKEN = new Set(['ECONNECTION', 'ESOCKET', 'ETIMEDOUT', 'ETLS', 'EPROTOCOL', 'ECONNRESET', 'EPIPE']);
/** Replies about the login, whatever command they answer (RFC 4954). */
const LOGIN_REPLIES = new Set([454, 530, 534, 535, 538]);
/** AWS SES: about this message. */
const SES_PERMANENT = new Set(['MessageRejected', 'BadRequestException', 'InvalidParameterValue']);

/**
 * Judges by codes and not by texts.
 *
 * - A reply of the server to the mail or to all of its recipients: 5xx is permanent, 4xx temporary (RFC 5321). 503 (bad
 *   sequence) is about the session. 421 says goodbye, whatever was asked.
 * - Of several refused recipients a single temporary refusal makes the whole mail worth trying again.
 * - What no transport has said (a file that cannot be read, a template that throws) is temporary.
 */
export function judge(error: unknown): MailVerdict {
  const { code, responseCode, rejectedErrors, name, $fault } = asTransportError(error);
  const reply = replyOf(responseCode, rejectedErrors);
  if (typeof code === 'string') {
    if (code === 'EENVELOPE' || code === 'EMESSAGE')
      return reply === undefined ? 'permanent' : judgeReply(reply);
    if (PERMANENT.has(code)) return 'permanent';
    if (TRANSPORT.has(code)) return 'transport';
  }
  if (typeof name === 'string' && SES_PERMANENT.has(name)) return 'permanent';
  // Any other answer of AWS, throttling and missing rights too.
  if (code === 'ESES' || $fault !== undefined) return 'unclear';
  if (typeof code === 'string' && (UNREACHABLE.has(code) || BROKEN.has(code))) return 'unclear';
  return reply === undefined ? 'temporary' : judgeReply(reply);
}

/** Whether one recipient's refusal is only for now. */
export function isDeferral(refusal: unknown): boolean {
  const { responseCode } = asTransportError(refusal);
  return typeof responseCode === 'number' && responseCode < 500;
}

/** Whether no connection came about, so that no mail can have been the reason. */
export function isUnreachable(error: unknown): boolean {
  const { code, originalCode, syscall } = asTransportError(error);
  if (syscall === 'connect') return true;
  return [code, originalCode].some((each) => typeof each === 'string' && UNREACHABLE.has(each));
}

function judgeReply(reply: number): MailVerdict {
  if (reply === 421) return 'unclear';
  if (LOGIN_REPLIES.has(reply)) return 'transport';
  return reply >= 500 && reply < 600 && reply !== 503 ? 'permanent' : 'temporary';
}

/** Older versions of nodemailer report the last recipient's reply for all. */
function replyOf(responseCode: unknown, rejectedErrors: unknown): number | undefined {
  const deferral = Array.isArray(rejectedErrors) ? (rejectedErrors as unknown[]).find(isDeferral) : undefined;
  const reply: unknown = deferral ? asTransportError(deferral).responseCode : responseCode;
  return typeof reply === 'number' ? reply : undefined;
}

function asTransportError(error: unknown): TransportError {
  return typeof error === 'object' && error !== null ? error : {};
}
