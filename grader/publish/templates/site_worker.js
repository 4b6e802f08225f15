/* A page that was opened from disk may not start a Web Worker, in which mkdocs-material searches. There the worker's
   script runs in a hidden frame instead, with the few functions of a worker that it uses. */
if (location.protocol === "file:") {
  const load = (frame, address) => new Promise((loaded, failed) => {
    const script = frame.document.createElement("script");
    script.src = address;
    script.onload = loaded;
    script.onerror = failed;
    frame.document.head.append(script);
  });
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.element = document.createElement("iframe");
      this.element.hidden = true;
      document.documentElement.append(this.element);
      const frame = (this.frame = this.element.contentWindow);
      frame.importScripts = (...addresses) =>
        addresses.reduce((before, next) => before.then(() => load(frame, next)), Promise.resolve());
      frame.postMessage = (data) => this.tell(this, data, (event) => this.onmessage && this.onmessage(event));
      this.ready = load(frame, new URL(address, document.baseURI).href);
    }
    tell(whom, data, further) {
      const event = new MessageEvent("message", {data});
      whom.dispatchEvent(event);
      further(event);
    }
    postMessage(data) {
      this.ready.then(() => this.tell(this.frame, data, () => {}));
    }
    terminate() {
      this.element.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
