import { FakeBroker } from './fake-broker';

/** Preloaded into a program that needs a broker to start with but has nobody to send to: nothing leaves its process. */
new FakeBroker().install();
