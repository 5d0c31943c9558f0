// Search in pages opened from a disk, where browsers refuse workers: a hidden frame does the work.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.ready = new Promise((resolve) => {
        const inside = frame.contentWindow;
        const load = (source) =>
          new Promise((loaded) => {
            const script = inside.document.createElement("script");
            script.src = new URL(source, url).href;
            script.onload = script.onerror = loaded;
            inside.document.head.append(script);
          });
        inside.postMessage = (data) => this.answer(data);
        inside.importScripts = (...sources) =>
          sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
        load(url).then(() => resolve(inside));
      });
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(data) {
      this.ready.then((inside) =>
        inside.dispatchEvent(new inside.MessageEvent("message", { data })),
      );
    }

    terminate() {
      this.ready.then((inside) => inside.frameElement.remove());
    }
  };
}
